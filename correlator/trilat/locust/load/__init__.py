"""How load was to be made: schedules, the starts they intended, stages."""
