"""Two Gaussian classes, whose best robust classifiers are known exactly."""
