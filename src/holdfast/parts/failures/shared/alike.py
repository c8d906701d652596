"""Images that an encoder does not tell apart."""

ROUNDING = 1e-6
"""Share of their lengths by which two representations must differ to count as different: they are float32."""

LEAST = -1e6
"""The value of a failure by confusion for an image that none of the others is different from."""
