"""Semantic fluctuation: by hand, its interval where changes are large, and what chance alone makes of it."""

import math

import numpy as np
import pytest
import torch

from holdfast.numerics import statistics
from holdfast.numerics.geometry.fluctuation import flipping, semantic_fluctuation
from holdfast.numerics.statistics.jackknife import over_classes
from holdfast.runtime.errors import NotEnough

RUNS = 300
ERROR = 3 * math.sqrt(0.05 * 0.95 / RUNS)


def draw(levels: list[list[float]], each: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs of correctness, [RUNS, T, N]: class c is right with probability levels[t][c], images apart."""
    rates = torch.tensor(levels).repeat_interleave(each, 1)
    labels = torch.arange(rates.shape[1]) // each
    random = torch.Generator().manual_seed(seed)
    return (torch.rand(RUNS, *rates.shape, generator=random) < rates).double(), labels


def test_by_hand() -> None:
    """Class 1: accuracies 1/2, 1, 0: TV (1/2 + 1) / 2. Class 4: 1/3 throughout, though another image is right."""
    correct = torch.tensor([[1.0, 0, 1, 0, 0], [1, 1, 0, 1, 0], [0, 0, 0, 0, 1]])
    labels = torch.tensor([1, 1, 4, 4, 4])
    found = semantic_fluctuation(correct, labels)
    assert found[:2].tolist() == [0.5, 1.0]
    assert float(found[2:].mean()) == 0
    assert float(over_classes(found, labels).mean()) == pytest.approx(0.375)
    root = math.sqrt(2 / math.pi)
    expected = [root * (1 + math.sqrt(2)) / 2 / 2, root * math.sqrt(2) / 3]
    assert flipping(correct, labels).tolist() == pytest.approx(expected)


def test_total_variation_is_that_of_the_accuracies() -> None:
    runs, labels = draw([[0.3, 0.8], [0.6, 0.7], [0.5, 0.9], [0.7, 0.9]], 12)
    found = semantic_fluctuation(runs[0], labels)
    for label in (0, 1):
        accuracy = runs[0][:, labels == label].mean(1)
        assert float(found[labels == label].mean()) == pytest.approx(float(accuracy.diff().abs().mean()))


def test_the_truth_is_inside_where_changes_are_large() -> None:
    levels = [[0.2, 0.9], [0.6, 0.5], [0.3, 0.9], [0.8, 0.4]]
    truth = float(torch.tensor(levels).diff(dim=0).abs().mean())
    scores = [statistics.mean(over_classes(semantic_fluctuation(r, labels), labels)) for r, labels in _runs(levels, 60)]
    assert np.mean([s.low <= truth <= s.high for s in scores]) >= 0.95 - ERROR
    assert np.mean([s.high - s.low for s in scores]) / 3.92 == pytest.approx(
        np.std([s.value for s in scores]), rel=0.15
    )


def _runs(levels: list[list[float]], each: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    runs, labels = draw(levels, each)
    return [(run, labels) for run in runs]


def test_chance_alone_fluctuates_as_much_as_said() -> None:
    """Nothing changes but which images are right: the plain value is not 0, and `flipping` is what it is."""
    runs = _runs([[0.7]] * 6, 50)
    plain = np.mean([float(semantic_fluctuation(*run).mean()) for run in runs])
    assert plain == pytest.approx(math.sqrt(2 / math.pi) * math.sqrt(2 * 0.7 * 0.3 / 50), rel=0.05)
    assert np.mean([float(flipping(*run)) for run in runs]) == pytest.approx(plain, rel=0.05)


def test_no_flip_is_no_fluctuation() -> None:
    correct, labels = torch.ones(3, 10), torch.arange(10) % 2
    assert semantic_fluctuation(correct, labels).tolist() == [0] * 10
    assert flipping(correct, labels).tolist() == [0, 0]
    assert statistics.mean(semantic_fluctuation(correct, labels), most=1.0).high == pytest.approx(1 - 0.025 ** (1 / 10))


def test_one_checkpoint_is_refused() -> None:
    with pytest.raises(NotEnough, match="got 1"):
        semantic_fluctuation(torch.ones(1, 4), torch.zeros(4, dtype=torch.long))
