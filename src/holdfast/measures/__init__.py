"""One question about an encoder per file."""
