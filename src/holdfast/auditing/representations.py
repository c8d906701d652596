"""The observations that every audit is built on: clean representations, and those that probes learn from."""

from holdfast.core import HoldfastError, Observation, Threat, registry

CLEAN: Observation = registry.part("observations", "clean")
"""Representations of all images as they are: what other observations know as `Shard.clean`."""


def training(threat: Threat | None = None) -> Observation:
    """Return the observation of the training images, disturbed by a threat or as they are."""
    return registry.find("observations", "training")(threat)


def not_observed(observation: Observation) -> HoldfastError:
    """Return the error for an observation that is read and was not made."""
    return HoldfastError(f"{registry.part_name(observation)} was not observed: it failed, or no measure names it first")
