"""A stage and a state shown to people."""
