"""Intervals at every look hold at once, however the last look is chosen."""

import math

import pytest
import torch

from holdfast.core import Score
from holdfast.numerics import statistics
from holdfast.numerics.statistics.looks import level, looking

LOOKS = (6, 12, 24, 48, 96, 192)
RUNS = 400


def covered(kind: str, adjusted: bool) -> float:
    """Return the share of runs in which the intervals of all looks hold the truth: the worst that stopping can do."""
    generator = torch.Generator().manual_seed(0)
    hits = 0
    for _ in range(RUNS):
        values = torch.rand(LOOKS[-1], generator=generator, dtype=torch.float64)
        rows = (values < 0.3).double() if kind == "share" else -values.log()
        truth = {"share": 0.3, "median": math.log(2), "mean": 1.0}[kind]
        hits += all(
            score.low is None or score.high is None or score.low <= truth <= score.high
            for number, n in enumerate(LOOKS, 1)
            for score in [scored(kind, rows[:n], number if adjusted else 0)]
        )
    return hits / RUNS


def scored(kind: str, rows: torch.Tensor, look: int) -> Score:
    with looking(look):
        return getattr(statistics, kind)(rows)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", ["median", "share"])
def test_intervals_at_every_look_hold_at_once(kind: str) -> None:
    assert covered(kind, adjusted=True) >= 0.95
    assert covered(kind, adjusted=False) < 0.93  # what one interval after another is worth


@pytest.mark.slow
def test_means_hold_too_but_for_what_their_own_interval_lacks() -> None:
    assert covered("mean", adjusted=True) >= 0.93


def test_the_levels_of_all_looks_add_up_to_that_of_one() -> None:
    missing = []
    for number in range(1, 2000):
        with looking(number):
            missing.append(1 - level(0.95))
    assert missing[0] == pytest.approx(0.025)
    assert sum(missing) == pytest.approx(0.05, abs=1e-4)
    assert sum(missing) < 0.05
    assert level(0.95) == 0.95


def test_every_interval_is_wider_at_a_later_look() -> None:
    values = torch.rand(50, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows = torch.where(values < 0.1, torch.nan, values)
    for make in (
        statistics.mean,
        statistics.median,
        lambda v: statistics.share((v > 0.5).double()),
        lambda v: statistics.share((v > 0.5).double(), torch.arange(len(v)) // 2),
        lambda v: statistics.pair_mean((v > 0.5).double(), v.nan_to_num().double()),
    ):
        once = make(rows)
        with looking(3):
            later = make(rows)
        assert later.value == once.value
        assert later.confidence == once.confidence
        assert later.high - later.low > once.high - once.low
