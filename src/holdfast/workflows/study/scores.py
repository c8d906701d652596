"""One row of a study's table: accuracies and what they lose, over test images and over trainings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import scipy
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Score
from holdfast.numerics import statistics
from holdfast.numerics.statistics.ratios import relative_drop
from holdfast.workflows.study.plan import ORIGINAL, Study

GIVEN = "given the trained encoders and what the probes learned"

Right = Float[Tensor, "trainings images"]
Answers = dict[tuple[str, str], Right]
"""Whether each training's encoder classifies each tested image rightly, by (probe, setting)."""


def score_row(study: Study, answers: Mapping[str, Answers | str], probe: str, setting: str) -> dict[str, Any]:
    """Return one row of the table, as plain data.

    `accuracy`, `drop` and `average` are means over trainings, with intervals over images. Where there are several
    trainings, `trainings` holds the same of another kind: over trainings, given the images, see `over_trainings`.
    """
    trained = {title: columns for title, columns in answers.items() if not isinstance(columns, str)}
    right = {title: columns[probe, setting] for title, columns in trained.items() if (probe, setting) in columns}
    if setting == "moved" and ORIGINAL.title in trained:  # its images are not corrupted: where it learned and is tested
        right[ORIGINAL.title] = trained[ORIGINAL.title][probe, "clean"]
    scores = {title: _share(hits) for title, hits in right.items()}
    row: dict[str, Any] = {
        "accuracy": {title: asdict(score) for title, score in scores.items()},
        "drop": {},
        "average": None,
        "trainings": {
            "accuracy": {title: _plain(over_trainings(_each(hits), 0.0, 1.0)) for title, hits in right.items()}
        },
        "problems": {title: columns for title, columns in answers.items() if isinstance(columns, str)},
    }
    if ORIGINAL.title in right:
        row |= _drops(study, right, scores, row["trainings"])
    if all(len(hits) < 2 for hits in right.values()):
        row["trainings"] = None
    return row


def _drops(study: Study, right: Mapping[str, Right], scores: Mapping[str, Score], trainings: dict) -> dict[str, Any]:
    original = right[ORIGINAL.title]

    def drop(hits: Right, score: Score) -> dict[str, Any]:
        influences = statistics.influence_of_mean(hits.mean(0)), statistics.influence_of_mean(original.mean(0))
        return asdict(relative_drop(score, scores[ORIGINAL.title], statistics.correlation(*influences)))

    def between(hits: Right) -> dict[str, Any] | None:
        pairs = zip(_each(hits), _each(original), strict=True)
        return _plain(over_trainings([(before - after) / before if before else math.nan for after, before in pairs]))

    others = {title: hits for title, hits in right.items() if title != ORIGINAL.title}
    row: dict[str, Any] = {"drop": {title: drop(hits, scores[title]) for title, hits in others.items()}}
    trainings["drop"] = {title: between(hits) for title, hits in others.items()}
    counted = [c for c in study.columns if c.averaged]
    averaged = [c.title for c in counted if c.corruption] or [c.title for c in counted]
    if all(title in right for title in averaged):
        hits = torch.stack([right[title] for title in averaged])
        row["average"] = drop(hits.mean(0), _share(hits.flatten(0, 1)))
        trainings["average"] = between(hits.mean(0))
    return row


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


def _plain(score: Score | None) -> dict[str, Any] | None:
    return None if score is None else asdict(score)
