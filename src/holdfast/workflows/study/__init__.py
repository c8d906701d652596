"""Pre-training on bad data: what it does to encoders."""
