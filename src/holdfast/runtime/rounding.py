"""What rounding may change: one place for the tolerances that several modules share."""

PIXELS = 1e-6
"""How far computed pixels may lie outside [0, 1], or an image outside its ball."""

REPRESENTATIONS = 1e-6
"""Share of the magnitudes of a sum that float32 representations are taken to be uncertain by."""
