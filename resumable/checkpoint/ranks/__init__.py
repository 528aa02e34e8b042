"""Parts, runs and conflicts of a checkpoint saved by several ranks together."""
