"""Whether an attacked image is still nearest to itself, and whether pairs can be confused."""
