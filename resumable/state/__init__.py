"""The values that a state may hold, and a state as bytes."""
