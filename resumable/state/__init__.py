"""A state: what it may hold, and as bytes."""
