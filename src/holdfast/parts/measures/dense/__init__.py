"""What becomes of the patches of an image, for encoders whose representation is the tokens of patches."""
