"""What is made of a group of consecutive items, and the motion through it."""
