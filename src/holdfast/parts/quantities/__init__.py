"""What is asked of an image that something befell, one quantity per file."""
