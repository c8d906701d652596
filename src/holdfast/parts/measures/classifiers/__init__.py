"""Classifiers of frozen representations, tested and attacked; with labels."""
