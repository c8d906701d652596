"""What the sources of encoders share."""
