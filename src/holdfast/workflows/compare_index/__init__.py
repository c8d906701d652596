"""The upgrade gate of an index: an old encoder and a new one on the same images."""
