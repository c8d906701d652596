"""How many colours and marks encoders have; apart from drawing, so that a page without charts needs no matplotlib."""

COLOURS = 8
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Eight colours and seven markers: coprime, so the first 56 encoders all look different."""
