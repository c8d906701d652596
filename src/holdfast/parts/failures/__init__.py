"""What counts as a failure of a disturbed image, with labels and without."""
