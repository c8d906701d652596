"""Pure functions of arrays: statistics, the geometry of representations, bound propagation, Gaussian classes."""
