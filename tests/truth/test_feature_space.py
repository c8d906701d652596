"""The shape of the feature space: closed forms, brute force, and intervals that keep their level."""

import math

import numpy as np
import pytest
import torch
from scipy import special
from sklearn.metrics import pairwise_distances

from holdfast.numerics import statistics
from holdfast.numerics.geometry import feature_space
from holdfast.numerics.statistics.jackknife import of_function, of_pairs, over_classes
from holdfast.runtime.errors import BadValue, NotEnough, NotFinite

RUNS = 200
ERROR = 3 * math.sqrt(0.05 * 0.95 / RUNS)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inside(scores, truth: float) -> float:
    return float(np.mean([s.low <= truth <= s.high for s in scores]))


# --- uniformity -----------------------------------------------------------------------------------


def test_uniformity_is_the_definition(monkeypatch) -> None:
    monkeypatch.setattr(feature_space, "BLOCK_BYTES", 8 * 23 * 4)  # four rows at a time
    reps = normal(23, 5)
    unit = torch.nn.functional.normalize(reps)
    expected = -math.log(torch.pdist(unit).square().mul(-2).exp().mean())
    assert float(feature_space.uniformity(reps).mean()) == pytest.approx(expected)
    torch.testing.assert_close(feature_space.uniformity(7 * reps), feature_space.uniformity(reps))
    # with the pairs of an image with itself: what the docstring says
    with_self = np.exp(-2 * pairwise_distances(unit.numpy()) ** 2).mean()
    assert with_self == pytest.approx((22 * math.exp(-expected) + 1) / 23)


def test_known_uniformities() -> None:
    ends = torch.tensor([[3.0, 0.0], [0.5, 0.0], [-2.0, 0.0], [-1.0, 0.0]])  # two antipodal points, twice each
    assert float(feature_space.uniformity(ends).mean()) == pytest.approx(-math.log((1 + 2 * math.exp(-8)) / 3))
    assert feature_space.potentials(ends[1:3]).tolist() == pytest.approx([math.exp(-8)] * 2)
    assert feature_space.uniformity(torch.eye(6)).tolist() == pytest.approx([4.0] * 6)
    assert feature_space.uniformity(torch.ones(9, 4)).tolist() == pytest.approx([0.0] * 9)
    assert float(feature_space.uniformity(torch.zeros(5, 3)).mean()) == pytest.approx(4)  # no direction: orthogonal


def test_collapsed_representations_have_no_interval() -> None:
    score = statistics.mean(feature_space.uniformity(torch.full((40, 3), 0.1)))
    assert score.value == pytest.approx(0, abs=1e-12)
    assert score.low is None


@pytest.mark.parametrize("dim", [3, 16])
def test_uniform_on_the_sphere(dim: int) -> None:
    """E exp(4 z·z') = ₀F₁(D/2, 4). Images hardly differ here, so the interval is up to √2 times too long."""
    truth = 4 - math.log(special.hyp0f1(dim / 2, 4))
    scores = [statistics.mean(feature_space.uniformity(reps)) for reps in normal(RUNS, 80, dim)]
    assert np.mean([s.value for s in scores]) == pytest.approx(truth, abs=0.02)
    assert inside(scores, truth) >= 0.95 - ERROR


@pytest.mark.sweep(2)
@pytest.mark.parametrize("n", [20, 100])
def test_uniformity_off_centre(n: int) -> None:
    offset = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
    truth = float(feature_space.uniformity(normal(6000, 4, seed=1) + offset).mean())
    scores = [statistics.mean(feature_space.uniformity(reps + offset)) for reps in normal(RUNS, n, 4)]
    assert inside(scores, truth) >= 0.94 - ERROR


def test_contributions_to_uniformity_are_the_jackknife() -> None:
    reps = normal(12, 3)
    value = float(feature_space.uniformity(reps).mean())
    without = torch.stack([feature_space.uniformity(torch.cat([reps[:i], reps[i + 1 :]])).mean() for i in range(12)])
    torch.testing.assert_close(feature_space.uniformity(reps), of_function(value, without))


# --- alignment ------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_alignment_is_the_definition(alpha: float) -> None:
    a, b = normal(9, 4), normal(9, 4, seed=1)
    unit = torch.nn.functional.normalize
    expected = (unit(a) - unit(b)).norm(dim=1) ** alpha
    torch.testing.assert_close(feature_space.alignment(a, 3 * b, alpha), expected)
    assert feature_space.alignment(a, 2 * a, alpha).tolist() == pytest.approx([0] * 9, abs=1e-12)
    assert feature_space.alignment(a, -a, alpha).tolist() == pytest.approx([2**alpha] * 9)
    assert feature_space.alignment(a, 0 * a, alpha).tolist() == pytest.approx([2 ** (alpha / 2)] * 9)


# --- distances ------------------------------------------------------------------------------------


def classes(sizes=(4, 7, 1, 5)) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.cat([torch.full((size,), 10 * c) for c, size in enumerate(sizes)])
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(2))
    return (normal(len(labels), 3) + labels[:, None] / 7)[order], labels[order]


def class_distances(reps: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean squared distance of every two classes by all pairs of images; NaN within a class of one."""
    squares, names = torch.from_numpy(pairwise_distances(reps.numpy()) ** 2), labels.unique()
    matrix = torch.stack([torch.stack([squares[labels == a][:, labels == b].mean() for b in names]) for a in names])
    sizes = torch.stack([(labels == name).sum() for name in names])
    return matrix.diagonal_scatter(matrix.diagonal() * sizes / (sizes - 1))


def test_contributions_average_to_the_distances_of_all_pairs() -> None:
    reps, labels = classes()
    matrix = class_distances(reps, labels)
    near, far = feature_space.within(reps + 1e6, labels), feature_space.between(reps + 1e6, labels)
    for number, label in enumerate(labels.unique()):
        others = torch.arange(4) != number
        assert float(far[labels == label].mean()) == pytest.approx(float(matrix[number, others].mean()))
        if number != 2:
            assert float(near[labels == label].mean()) == pytest.approx(float(matrix[number, number]))
    assert near[labels == 20].isnan().all()
    off = matrix[~torch.eye(4, dtype=torch.bool)].mean()
    assert float(over_classes(far, labels).mean()) == pytest.approx(float(off))
    assert float(over_classes(near, labels).nanmean()) == pytest.approx(float(matrix.diagonal()[[0, 1, 3]].mean()))


def test_distances_of_isotropic_classes() -> None:
    """E ||a - b||² = 2 D σ² within a class, and |m - m'|² more between two; both with their level."""
    labels, shift = torch.tensor([0] * 15 + [1] * 30 + [2] * 8), torch.zeros(53, 4, dtype=torch.float64)
    shift[labels == 1, 0], shift[labels == 2, 1] = 2, 3
    near, far = [], []
    for reps in 0.5 * normal(RUNS, 53, 4):
        near.append(statistics.mean(over_classes(feature_space.within(reps + shift, labels), labels)))
        far.append(statistics.mean(over_classes(feature_space.between(reps + shift, labels), labels)))
    assert inside(near, 2) >= 0.94 - ERROR
    assert inside(far, 2 + (4 + 9 + 13) / 3) >= 0.94 - ERROR
    assert inside(far, 2 + (4 + 9 + 13) / 3) <= 0.99  # nor does it add how classes differ


def test_pairs_and_functions_agree_on_a_variance() -> None:
    """The variance is the U-statistic of (a-b)²/2: both jackknives must be the same."""
    values = normal(15)
    pairs = (values[:, None] - values).square() / 2
    without = torch.stack([torch.cat([values[:i], values[i + 1 :]]).var() for i in range(15)])
    found = of_pairs(pairs.sum(1) / 14)
    assert float(found.mean()) == pytest.approx(float(values.var()))
    torch.testing.assert_close(found, of_function(float(values.var()), without))
    assert of_pairs(values[:2]).isnan().all()


def test_over_classes_by_hand() -> None:
    """Class means 2 and 10: the mean is 6, its variance (var_0 / 2 + var_1 / 3) / 4."""
    values = torch.tensor([1.0, 3.0, 8.0, 10.0, 12.0, math.nan])
    found = over_classes(values, torch.tensor([4, 4, 6, 6, 6, 6]))
    assert float(found.nanmean()) == pytest.approx(6)
    assert found[5].isnan()
    centred = found[:5] - 6
    assert float(centred.square().mean()) / 5 == pytest.approx((2 / 2 + 4 / 3) / 4)


def test_bad_input() -> None:
    with pytest.raises(NotFinite):
        feature_space.uniformity(torch.full((4, 2), math.nan))
    with pytest.raises(BadValue, match="alignment"):
        feature_space.alignment(torch.eye(2), torch.eye(2), 0.0)
    with pytest.raises(NotEnough):
        feature_space.between(torch.eye(3), torch.zeros(3, dtype=torch.long))
