"""Items made of groups of consecutive items, and the motion through groups."""
