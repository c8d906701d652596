"""Scores of a randomised encoder by other groups of draws, from what was observed: no encoder pass."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jaxtyping import Int
from torch import Tensor

from holdfast.core import Measure, Observation, Score
from holdfast.core.randomness import GROUPS, redrawn
from holdfast.numerics.statistics.copies import score_pictures
from holdfast.numerics.statistics.redrawn import widen_interval

RANGES = {"share": (0.0, 1.0), "similarity": (-1.0, 1.0), "pixels": (0.0, math.inf)}
"""The least and the most that scores can be, by their unit."""


class _GivenDraws(Exception):
    """A measure reads what was observed by the encoder's own draws alone."""


class Redrawn:
    """A subject as another group of draws sees it.

    Args:
        subject: who was observed.
        group: which draws, from 1.
    """

    def __init__(self, subject: Any, group: int):
        self._subject, self._prefix = subject, redrawn("", group)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._subject, name)
        return _refuse if callable(value) else value

    def read(self, observation: Observation) -> dict[str, Tensor]:
        """Return what the observation saw, with the representations of this group in place of the encoder's own."""
        results = self._subject.read(observation)
        again = {key.removeprefix(self._prefix): v for key, v in results.items() if key.startswith(self._prefix)}
        if not again:
            raise _GivenDraws
        return {**results, **again}


def _refuse(*_: object, **__: object) -> Any:
    raise _GivenDraws


def with_draws(
    measure: Measure, subject: Any, scores: Mapping[str, Score], first: Int[Tensor, "images"] | None = None
) -> dict[str, Score]:
    """Return scores of a mean over draws with intervals that know of other draws, or that say that they do not.

    Args:
        measure: the measure.
        subject: who was observed, as the measure reads it.
        scores: by the encoder's own draws.
        first: the first image that shows the picture of each; None where none is a copy.
    """
    try:
        groups: list[Any] = [Redrawn(subject, group) for group in range(1, GROUPS + 1)]
        again = [score_pictures(measure, measure.observe(group), first) for group in groups]
    except _GivenDraws:
        return {name: replace(score, interval=f"{score.interval}, given its draws") for name, score in scores.items()}
    return {
        name: widen_interval(
            score, [_number(group.get(name)) for group in again], *RANGES.get(score.unit or measure.unit, ())
        )
        for name, score in scores.items()
    }


def _number(score: Score | None) -> float:
    return math.nan if score is None or score.value is None else score.value
