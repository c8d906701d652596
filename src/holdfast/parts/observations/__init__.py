"""What is asked of an encoder: the only place where encoder passes happen."""
