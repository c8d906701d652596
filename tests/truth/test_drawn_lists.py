"""Lists of some items among very many: by brute force, and whether their intervals hold what all items say."""

import math

import numpy as np
import pytest
import torch

from holdfast.core.divergence import read_divergence as divergence
from holdfast.numerics.geometry import nearest as module
from holdfast.numerics.geometry.nearest import nearest, nearest_of_many
from holdfast.numerics.geometry.neighbour_lists import (
    compare_drawn_lists,
    lists_of,
    neighbour_lists,
    overlap_weights,
    rank_biased_weights,
)
from holdfast.numerics.statistics.list_means import list_mean

NAMES = ("l2", "cosine", "dot", "squared_l2", "l1", "hamming")


def bank(kind: str) -> torch.Tensor:
    random = torch.Generator().manual_seed(0)
    reps = torch.randn(300, 5, generator=random)
    if kind == "far away":
        return reps * 1e-3 + 100
    if kind == "equal":
        return reps[torch.arange(300) % 20]
    if kind == "bytes":
        return (40 * reps).clamp(-127, 127).to(torch.int8)
    if kind == "huge":
        return reps * 1e22
    if kind == "halves":
        return reps.half()
    if kind == "rounded apart":  # copies that differ in the last bit of one number
        reps = reps[torch.arange(300) % 20]
        reps[::3, 0] = reps[::3, 0].nextafter(torch.tensor(9.0))
    if kind == "one block far away":
        reps[100:160] *= 1e5
    if kind == "zeros":
        reps[::7] = 0
    return reps


@pytest.mark.parametrize(
    "kind",
    ["usual", "far away", "equal", "bytes", "huge", "zeros", "halves", "rounded apart", "one block far away"],
)
@pytest.mark.parametrize("name", NAMES)
def test_the_nearest_of_many_are_those_of_all_distances(name: str, kind: str, monkeypatch) -> None:
    monkeypatch.setattr(module, "COLUMNS", 64)
    monkeypatch.setattr(module, "ROWS", 16)
    reps, told = bank(kind), list[int]()
    queries = reps[10:50]
    found, apart = nearest_of_many(queries, reps, 9, divergence(name), told.append)
    assert found.tolist() == nearest(queries, reps, 9, divergence(name)).tolist()
    assert sum(told) in range(290, 301)
    every = divergence(name)(queries.double()[:, None], reps.double()[None])
    order = every.sort(dim=1, stable=True)
    assert found.tolist() == order.indices[:, :9].tolist()
    assert apart.tolist() == order.values[:, :9].tolist()


def test_lists_of_some_are_rows_of_those_of_all() -> None:
    reps = bank("equal")
    some = torch.tensor([0, 3, 150, 299])
    assert (
        lists_of(some, reps, 30, divergence("l2")).tolist()
        == neighbour_lists(reps, 30, divergence("l2"))[some].tolist()
    )


def test_what_drawn_lists_have_in_common_is_counted_by_hand() -> None:
    first = torch.tensor([[5, 6, 7, 8], [1, 2, 3, 4], [9, -1, -1, -1]])
    second = torch.tensor([[6, 5, 9, 7], [1, 2, 3, 4], [-1, -1, -1, 9]])
    weights = torch.stack([overlap_weights(1, 3), overlap_weights(3, 3), rank_biased_weights(0.5, 3)])
    kept = compare_drawn_lists(first, second, weights)
    # what an index did not find is in common with nothing
    assert kept.values[0].tolist() == [0, 1, 0]
    assert kept.values[1].tolist() == pytest.approx([2 / 3, 1, 0])
    depths = [0, 1, 2 / 3]  # overlaps of the first row at 1, 2 and 3
    assert float(kept.values[2, 0]) == pytest.approx(sum(0.5**d * depths[d] for d in range(3)) / (1 + 0.5 + 0.25))
    assert kept.without[0].tolist() == pytest.approx([1 / 2, 0, 1 / 2])


@pytest.mark.parametrize("rare", [0.0, 0.001, 0.01, 0.1])
def test_intervals_over_queries_hold_what_all_items_say(rare: float) -> None:
    """Of an index of 20,000 items, most lists keep all or, in one case, some: 200 queries say what all do."""
    random = np.random.default_rng(0)
    every = np.where(random.random(20_000) < rare, random.binomial(10, 0.2, 20_000), 10) / 10
    if not rare:
        every = random.binomial(10, 0.8 * random.random(20_000)) / 10
    truth, runs, held = float(every.mean()), 600, 0
    for _ in range(runs):
        values = torch.from_numpy(random.choice(every, 200, replace=False))
        score = list_mean(values, (values.sum() - values) / 199, 10, drawn=True)
        assert score.low is not None
        assert score.high is not None
        held += score.low <= truth <= score.high
    assert held / runs >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs)


def test_an_interval_over_queries_is_that_of_independent_trials() -> None:
    same = torch.ones(50, dtype=torch.float64)
    score = list_mean(same, same, 10, drawn=True)
    assert (score.value, score.low, score.high) == (1, pytest.approx(0.025 ** (1 / 50)), 1)
    assert "drawn from this index" in score.interval
