"""Certificates about smoothed encoders, from noisy draws."""
