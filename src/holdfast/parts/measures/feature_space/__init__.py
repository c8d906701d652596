"""The shape of the feature space."""
