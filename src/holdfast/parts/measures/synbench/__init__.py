"""How much of the trade-off of two Gaussian classes is left."""
