"""Observations of the images that probes learn from."""

from dataclasses import dataclass

from holdfast.core import Scope
from holdfast.parts.observations.shared.all import OfAll


@dataclass(frozen=True)
class OfTraining(OfAll):
    """An observation of all training images."""

    scope = Scope.TRAINING
