"""Distances, neighbours, margins and the shape of sets of representations."""
