"""How images may change: balls with a worst case, and noise."""
