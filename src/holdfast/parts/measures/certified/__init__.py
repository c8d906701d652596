"""What no image of a ball can break: numbers that are proved."""
