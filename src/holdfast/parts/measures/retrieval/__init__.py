"""Whether search still returns the right image, and copies still match."""
