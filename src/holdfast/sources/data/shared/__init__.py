"""What the sources of images share."""
