"""Images that an encoder does not tell apart."""

LEAST = -1e6
"""The value of a failure by confusion for an image that none of the others is different from."""
