"""Where encoders and images come from, and the grammar of their spec strings."""
