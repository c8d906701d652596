"""The worst case from below: searches for the image in a ball that maximises an objective."""
