"""The worst case from above: proofs about all images of a ball at once."""
