"""What people do with an encoder: search in an index, and match copies at a threshold, attacked and edited."""
