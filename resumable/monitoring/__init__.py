"""How a run is doing, for the tools that show it."""
