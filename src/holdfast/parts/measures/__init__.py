"""One question about an encoder per file, in groups."""

GROUPS = (
    "drift", "neighbours", "retrieval", "transfer", "dense", "certified", "smoothed", "probabilistic", "corruptions",
    "classifiers", "feature_space", "synbench", "what_under_what",
)  # fmt: skip
"""The folders that hold the measures, in the order in which people meet them."""
