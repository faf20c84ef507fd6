"""Response times cut into parts: cut points, clocks lined up, the nine components."""
