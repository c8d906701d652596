"""How a linear head on frozen representations comes about, one way per file."""
