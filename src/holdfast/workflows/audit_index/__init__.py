"""One index by itself: hubs, near-duplicates, dimensions, lengths, a threshold; of vectors that are stored."""
