"""One row of a study's table: accuracies and what they lose, over test images and trainings together."""

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Score
from holdfast.numerics import statistics
from holdfast.numerics.statistics.ratios import relative_drop
from holdfast.numerics.statistics.two_way import two_way_share
from holdfast.storage.study import StudyRow
from holdfast.workflows.study.plan import ORIGINAL, Study

GIVEN = "given the trained encoders and what the probes learned"
"""What intervals over images are conditional on, where there is one training of each."""

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
        problems={title: columns for title, columns in answers.items() if isinstance(columns, str)},
    )


def _drop(right: Mapping[str, Right], columns: Float[Tensor, "columns trainings images"]) -> Score:
    """Return Δ of the mean of some columns, on the images of the original.

    Images are paired, trainings are not: two or three could not tell how much seed 0 of one version says of seed 0 of
    another. So of the correlation over images that part is left which images have in both intervals.
    """
    original, changed = right[ORIGINAL.title], columns.mean(0)
    correlation = statistics.correlation(
        statistics.influence_of_mean(changed.mean(0)), statistics.influence_of_mean(original.mean(0))
    )
    over_images = _over_images(columns.flatten(0, 1)), _over_images(original)
    if len(original) == 1:
        return relative_drop(*over_images, correlation)
    both = _over_both(changed), _over_both(original)
    correlation *= math.prod(_width(part) / _width(whole) for part, whole in zip(over_images, both, strict=True))
    drop = relative_drop(*both, min(max(correlation, -1.0), 1.0))
    return replace(drop, interval=f"about other images and other trainings, {drop.interval}")


def _share(hits: Right) -> Score:
    """Return the share of right answers."""
    return _over_images(hits) if len(hits) == 1 else _over_both(hits)


def _over_both(hits: Right) -> Score:
    """Return it with its interval over images and trainings."""
    return two_way_share(hits.T, of="trainings", condition="given what the probes learned from")


def _over_images(hits: Float[Tensor, "rows images"]) -> Score:
    """Return it with its interval over images; one image under several encoders is a cluster."""
    if len(hits) == 1:
        return statistics.share(hits[0], condition=GIVEN)
    return statistics.share(hits.flatten(), torch.arange(hits.shape[1]).repeat(len(hits)), condition=GIVEN)


def _width(score: Score) -> float:
    return 1.0 if score.low is None or score.high is None else score.high - score.low
