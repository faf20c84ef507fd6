"""The generator's own health, from its first second on."""
