"""Benchmarks: what Holdfast costs, as ratios measured in one run. See README.md."""
