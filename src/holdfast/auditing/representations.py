"""The observations that every audit is built on: clean representations, and those that probes learn from."""

from holdfast.core import Observation, Threat, registry

CLEAN: Observation = registry.part("observations", "clean")
"""Representations of all images as they are: what other observations know as `Shard.clean`."""


def training(threat: Threat | None = None) -> Observation:
    """Return the observation of the training images, disturbed by a threat or as they are."""
    return registry.find("observations", "training")(threat)
