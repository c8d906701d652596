"""A table filled several times, once for each seed of its trainings, as one: means, and how far trainings differ."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import scipy
import torch

from holdfast.core import Score
from holdfast.numerics.statistics.levels import reach
from holdfast.numerics.statistics.seeds import mean_over_seeds
from holdfast.runtime.errors import NotEnough, unknown
from holdfast.workflows.reproduce.claim import Cell
from holdfast.workflows.reproduce.recipe import Reproduction
from holdfast.workflows.reproduce.table import at_of


def together(
    recipe: Reproduction, tables: Sequence[Mapping[tuple[str, str], Cell]], seeds: Sequence[int]
) -> dict[tuple[str, str], Cell]:
    """Return one table: the mean of each cell, with one interval about other images and other trainings.

    It is that of a method's seeds, at any correlation of what images contribute; of numbers without an interval over
    images it is Student's over trainings. Cells with the key `trainings` hold the standard deviation between trainings.
    """
    places = {(r.name, c.name): at_of(r, c).get("trainings") for r in recipe.rows for c in recipe.columns}
    return {key: _one([table[key] for table in tables], seeds, places[key]) for key in tables[0]}


def _one(cells: Sequence[Cell], seeds: Sequence[int], number: str | None) -> Cell:
    """Return the cell that stands for the same one of every training."""
    for cell, seed in zip(cells, seeds, strict=True):
        if cell.score is None or cell.score.value is None:
            return replace(cell, score=None, why=f"seed {seed}: {cell.why or 'undefined'}")
    scores = [cell.score for cell in cells if cell.score is not None]
    values = [float(score.value) for score in scores if score.value is not None]
    of = "; ".join(cell.of for cell in cells) if all(cell.of for cell in cells) else ""
    if number is not None:
        return replace(cells[0], score=_number(number, values), of=of)
    whole = np.ones((len(scores), len(scores)))
    known = all(reach(score) is not None for score in scores)
    score = mean_over_seeds(scores, whole) if known else over_trainings(values)
    return replace(cells[0], score=score, each=tuple(scores), of=of)


def _number(name: str, values: Sequence[float]) -> Score:
    """Return a number of its own about the trainings."""
    if name != "std":
        raise unknown("trainings", name, ("std",))
    return deviation(values)


def over_trainings(values: Sequence[float], confidence: float = 0.95) -> Score:
    """Return the mean of what several trainings came to, with Student's interval: x̄ ± t_{k-1} s / √k.

    It is about another training of the same recipe, tested on the same images. Trainings that agree to the last image
    have no spread to tell it from, and so no interval.
    """
    k = len(values)
    mean, spread = math.fsum(values) / k, float(torch.tensor(values, dtype=torch.float64).std())
    half = float(scipy.stats.t.ppf((1 + confidence) / 2, k - 1)) * spread / math.sqrt(k)
    kind = f"Student t over {k} trainings, given the test images"
    low, high = (mean - half, mean + half) if spread else (None, None)
    return Score(mean, low, high, k, kind, confidence, "" if spread else "all trainings came to the same")


def deviation(values: Sequence[float], confidence: float = 0.95) -> Score:
    """Return the standard deviation of what several trainings came to, with the interval s √((k-1) / χ²_{k-1}).

    Example:
        >>> print(f"{deviation([0.82, 0.84, 0.83]).value:.3f}")
        0.010
    """
    k = len(values)
    if k < 2:
        raise NotEnough(f"a standard deviation between trainings takes two or more, got {k}; give more seeds")
    spread = float(torch.tensor(values, dtype=torch.float64).std())
    kind = f"χ² over {k} trainings, as if normal, given the test images"
    if spread == 0:
        return Score(0.0, None, None, k, kind, confidence, "all trainings came to the same")
    tails = (1 + confidence) / 2, (1 - confidence) / 2
    low, high = (spread * math.sqrt((k - 1) / float(scipy.stats.chi2.ppf(tail, k - 1))) for tail in tails)
    return Score(spread, low, high, k, kind, confidence)
