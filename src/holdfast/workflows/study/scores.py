"""One row of a study's table: accuracies and what they lose, over test images and over trainings."""

import math
from collections.abc import Mapping, Sequence

import scipy
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Score
from holdfast.numerics import statistics
from holdfast.numerics.statistics.ratios import relative_drop
from holdfast.storage.study import StudyRow, Trainings
from holdfast.workflows.study.plan import ORIGINAL, Study

GIVEN = "given the trained encoders and what the probes learned"

Right = Float[Tensor, "trainings images"]
Answers = dict[tuple[str, str], Right]
"""Whether each training's encoder classifies each tested image rightly, by (probe, setting)."""


def score_row(study: Study, method: str, answers: Mapping[str, Answers | str], probe: str, setting: str) -> StudyRow:
    """Return one row of the table: by column, what is known of each, or why nothing is."""
    trained = {title: columns for title, columns in answers.items() if not isinstance(columns, str)}
    right = {title: columns[probe, setting] for title, columns in trained.items() if (probe, setting) in columns}
    if setting == "moved" and ORIGINAL.title in trained:  # its images are not corrupted: where it learned and is tested
        right[ORIGINAL.title] = trained[ORIGINAL.title][probe, "clean"]
    # what is held against the original; an average only where nothing of it is missing
    others = {title: hits for title, hits in right.items() if title != ORIGINAL.title and ORIGINAL.title in right}
    counted = [c for c in study.columns if c.averaged]
    titles = [c.title for c in counted if c.corruption] or [c.title for c in counted]
    averaged = torch.stack([others[title] for title in titles]) if set(titles) <= set(others) else None
    return StudyRow(
        method=method,
        probe=probe,
        setting=setting,
        accuracy={title: _share(hits) for title, hits in right.items()},
        drop={title: _drop(right, hits[None]) for title, hits in others.items()},
        average=None if averaged is None else _drop(right, averaged),
        trainings=_score_trainings(right, others, averaged),
        problems={title: columns for title, columns in answers.items() if isinstance(columns, str)},
    )


def _score_trainings(
    right: Mapping[str, Right], others: Mapping[str, Right], averaged: Float[Tensor, "columns trainings images"] | None
) -> Trainings | None:
    """Return the same over trainings; None where every version has one."""
    if all(len(hits) < 2 for hits in right.values()):
        return None
    return Trainings(
        accuracy={title: over_trainings(_each(hits), 0.0, 1.0) for title, hits in right.items()},
        drop={title: _drop_between(right, hits) for title, hits in others.items()},
        average=None if averaged is None else _drop_between(right, averaged.mean(0)),
    )


def _drop(right: Mapping[str, Right], columns: Float[Tensor, "columns trainings images"]) -> Score:
    """Return Δ of the mean of some columns, on the images of the original."""
    original = right[ORIGINAL.title]
    influences = (statistics.influence_of_mean(hits.mean(0)) for hits in (columns.mean(0), original))
    return relative_drop(_share(columns.flatten(0, 1)), _share(original), statistics.correlation(*influences))


def _drop_between(right: Mapping[str, Right], hits: Right) -> Score | None:
    """Return Δ over trainings, each against the original of its own seed."""
    pairs = zip(_each(hits), _each(right[ORIGINAL.title]), strict=True)
    return over_trainings([(before - after) / before if before else math.nan for after, before in pairs])


def _share(hits: Float[Tensor, "rows images"]) -> Score:
    """Return the share of right answers; one image under several encoders is a cluster."""
    if len(hits) == 1:
        return statistics.share(hits[0], condition=GIVEN)
    return statistics.share(hits.flatten(), torch.arange(hits.shape[1]).repeat(len(hits)), condition=GIVEN)


def _each(hits: Right) -> list[float]:
    return hits.mean(1).tolist()


def over_trainings(
    values: Sequence[float], least: float = -math.inf, most: float = math.inf, confidence: float = 0.95
) -> Score | None:
    """Return the mean of what several trainings came to, with Student's interval: x̄ ± t_{k-1} s / √k.

    It is about another training of the same recipe, tested on the same images. Trainings that agree to the last image
    have no spread to tell it from, and so no interval.
    """
    k = len(values)
    if k < 2 or not all(map(math.isfinite, values)):
        return None
    mean, spread = math.fsum(values) / k, float(torch.tensor(values, dtype=torch.float64).std())
    half = float(scipy.stats.t.ppf((1 + confidence) / 2, k - 1)) * spread / math.sqrt(k)
    kind = f"Student t over {k} trainings, given the test images"
    low, high = (max(mean - half, least), min(mean + half, most)) if spread else (None, None)
    return Score(mean, low, high, k, kind, confidence, "" if spread else "all trainings came to the same")
