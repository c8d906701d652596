"""Hubs and those in nobody's list: by loops, without each item in turn, and whether their intervals hold."""

import math

import numpy as np
import pytest
import scipy
import torch

from holdfast.core.divergence import read_divergence as divergence
from holdfast.numerics import statistics
from holdfast.numerics.geometry.hubs import hubness, occurrences
from holdfast.numerics.geometry.neighbour_lists import neighbour_lists
from holdfast.numerics.statistics import jackknife
from holdfast.numerics.statistics.list_means import list_mean


def by_loops(reps: torch.Tensor, k: int, top: float) -> dict[str, float]:
    """The three numbers of some items; of the most frequent ones the last is taken in part."""
    apart = torch.cdist(reps.double(), reps.double())
    counts = np.zeros(len(reps))
    for row in range(len(reps)):
        others = sorted((float(apart[row, other]), other) for other in range(len(reps)) if other != row)
        for _, other in others[:k]:
            counts[other] += 1
    most, left, held = sorted(counts, reverse=True), top * len(reps), 0.0
    for count in most:
        held += min(1.0, max(left, 0.0)) * count
        left -= 1
    return {
        "skew": float(scipy.stats.skew(counts)),
        "hubs": held / (k * len(reps)),
        "antihubs": float(np.mean(counts == 0)),
    }


@pytest.mark.parametrize("top", [0.01, 0.1, 0.26])
def test_hubs_are_those_of_loops_with_and_without_each_item(top: float) -> None:
    reps = torch.randn(50, 9, generator=torch.Generator().manual_seed(0))
    found = hubness(neighbour_lists(reps, 6, divergence("l2")), max(top, 1 / 50))
    whole = by_loops(reps, 5, max(top, 1 / 50))
    for name, expected in whole.items():
        assert float(found[name].values.mean()) == pytest.approx(expected), name
    for absent in range(0, 50, 7):
        fewer = by_loops(reps[[row for row in range(50) if row != absent]], 5, max(top, 1 / 50))
        for name in ("skew", "antihubs"):
            assert float(found[name].without[0, absent]) == pytest.approx(fewer[name]), name
        # the rank of the last hub is held, where the least of the sums is flat
        assert fewer["hubs"] <= float(found["hubs"].without[0, absent]) + 1e-12
        assert float(found["hubs"].without[0, absent]) == pytest.approx(fewer["hubs"], abs=2 / (5 * 49))


def test_an_item_in_every_list_holds_a_share_of_them() -> None:
    reps = torch.cat([torch.zeros(1, 20), torch.eye(20)])
    lists = neighbour_lists(reps, 2, divergence("l2"))
    assert occurrences(lists[:, :1]).tolist()[0] == 20
    found = hubness(lists, 1 / 21)
    assert float(found["hubs"].values[0, 0]) == pytest.approx(20 / 21)
    assert float(found["antihubs"].values.mean()) == pytest.approx(19 / 21)


@pytest.mark.slow
@pytest.mark.parametrize(("items", "dim", "uneven"), [(200, 4, False), (200, 30, False), (300, 30, True)])
def test_intervals_of_hubs_hold_what_other_items_would_say(items: int, dim: int, uneven: bool) -> None:
    """Of samples of items: the truth is their mean. The skewness has no interval, for it would hold too seldom."""
    runs, scores = 300, {"hubs": [], "antihubs": []}
    for seed in range(runs):
        random = torch.Generator().manual_seed(seed)
        reps = torch.randn(items, dim, generator=random)
        reps = reps * torch.rand(items, 1, generator=random) if uneven else reps
        found = hubness(neighbour_lists(reps, 11, divergence("l2")), 0.05)
        hubs, absent = found["hubs"], found["antihubs"]
        parts = jackknife.of_function(float(hubs.values[0, 0]), hubs.without[0])
        scores["hubs"].append(statistics.mean(parts, most=1.0))
        scores["antihubs"].append(list_mean(absent.values[0], absent.without[0], 10))
    for name, several in scores.items():
        truth = float(np.mean([score.value for score in several]))
        held = np.mean([score.low <= truth <= score.high for score in several])
        assert held >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs), name
