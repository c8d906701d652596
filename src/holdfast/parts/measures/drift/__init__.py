"""How far representations drift in the worst case."""
