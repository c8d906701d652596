"""Effective rank and participation ratio: known spectra, SciPy's entropy, derivatives, intervals, collapse."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from holdfast.numerics import statistics
from holdfast.numerics.geometry import spectrum
from holdfast.runtime.errors import NotEnough, NotFinite

RUNS = 200
ERROR = 3 * math.sqrt(0.05 * 0.95 / RUNS)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def value(contributions: torch.Tensor) -> float:
    return float(contributions.mean())


@pytest.mark.parametrize("shape", [(30, 6), (6, 30), (9, 9)], ids=str)
@pytest.mark.parametrize("centred", [True, False])
def test_values_are_those_of_the_singular_values(shape, centred: bool) -> None:
    reps = normal(*shape) + 2
    singular = np.linalg.svd((reps - reps.mean(0) if centred else reps).numpy(), compute_uv=False)
    singular[singular < 1e-12 * singular[0]] = 0
    torch.testing.assert_close(spectrum.spectrum(reps, centred), torch.from_numpy(singular), rtol=1e-6, atol=1e-6)
    assert value(spectrum.effective_rank(reps, centred)) == pytest.approx(math.exp(stats.entropy(singular)))
    ratio = (singular**2).sum() ** 2 / (singular**4).sum()
    assert value(spectrum.participation_ratio(reps, centred)) == pytest.approx(ratio)


@pytest.mark.parametrize("measure", [spectrum.effective_rank, spectrum.participation_ratio])
def test_known_ranks(measure) -> None:
    assert value(measure(torch.eye(7), centred=False)) == pytest.approx(7)
    assert value(measure(torch.eye(7))) == pytest.approx(6)  # the mean takes one direction away
    line = torch.arange(8.0)[:, None] * torch.tensor([1.0, -2.0, 3.0]) + 5
    assert value(measure(line)) == pytest.approx(1, abs=1e-6)
    assert value(measure(1e-200 * normal(20, 3))) == pytest.approx(value(measure(normal(20, 3))))


@pytest.mark.parametrize("measure", [spectrum.effective_rank, spectrum.participation_ratio])
def test_collapse_is_undefined(measure) -> None:
    for constant in (0.0, 0.1):
        score = statistics.mean(measure(torch.full((11, 3), constant, dtype=torch.float64)))
        assert (score.value, score.low) == (None, None)
        assert "11 of 11 rows are undefined" in score.note


@pytest.mark.parametrize("measure", [spectrum.effective_rank, spectrum.participation_ratio])
@pytest.mark.parametrize("shape", [(40, 5), (20, 30)], ids=str)
def test_contributions_are_derivatives(measure, shape) -> None:
    """Of the value with respect to an image's weight, by differences; repetition of an image is a weight."""
    reps = normal(*shape, seed=3) * torch.linspace(1, 3, shape[1]).double()
    reps = reps - reps.mean(0)
    found = measure(reps, centred=False)
    for image in (0, 7):
        ends = []
        for step in (1e-4, -1e-4):
            scaled = reps.clone()
            scaled[image] *= math.sqrt(1 + step * len(reps))
            ends.append(value(measure(scaled, centred=False)))
        assert float(found[image]) - value(found) == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("measure", [spectrum.effective_rank, spectrum.participation_ratio])
def test_the_truth_is_inside_as_often_as_promised(measure) -> None:
    """Many images of few, unlike directions; the known spectrum is 1, 1/2, ..., 1/8."""
    scale = 1 / torch.arange(1, 9).double()
    p = (scale / scale.sum()).numpy()
    truth = {
        spectrum.effective_rank: math.exp(stats.entropy(p)),
        spectrum.participation_ratio: (p**2).sum() ** 2 / (p**4).sum(),
    }[measure]
    scores = [statistics.mean(measure(reps * scale)) for reps in normal(RUNS, 400, 8)]
    assert np.mean([s.low <= truth <= s.high for s in scores]) >= 0.95 - ERROR
    assert np.mean([s.high - s.low for s in scores]) / 3.92 == pytest.approx(np.std([s.value for s in scores]), rel=0.2)


@pytest.mark.parametrize(("n", "dim"), [(400, 8), (640, 32)])
def test_how_much_too_low_few_images_are(n: int, dim: int) -> None:
    """What the docstrings say about directions that are all alike."""
    ranks = [value(spectrum.effective_rank(reps)) for reps in normal(30, n, dim)]
    assert 1 - np.mean(ranks) / dim == pytest.approx((dim + 1) / (8 * n), rel=0.15)
    ratios = [value(spectrum.participation_ratio(reps)) for reps in normal(30, n, dim)]
    assert 1 - np.mean(ratios) / dim == pytest.approx((dim + 1) / n, rel=0.15)


def test_bad_input() -> None:
    with pytest.raises(NotEnough):
        spectrum.spectrum(torch.ones(1, 3))
    with pytest.raises(NotFinite, match="finite"):
        spectrum.effective_rank(torch.tensor([[1.0, math.inf], [0.0, 1.0]]))


@pytest.mark.parametrize(("images", "dim"), [(700, 30), (95, 40), (20, 30)])
@pytest.mark.parametrize("centred", [True, False])
def test_representations_in_parts_have_the_spectrum_of_all(monkeypatch, images: int, dim: int, centred: bool) -> None:
    reps = torch.randn(images, dim, generator=torch.Generator().manual_seed(0)) * torch.linspace(0.1, 3, dim) + 1
    functions = (spectrum.spectrum, spectrum.effective_rank, spectrum.participation_ratio)
    whole = [function(reps, centred) for function in functions]
    monkeypatch.setattr(spectrum, "_VALUES", 90 * dim)  # the last part has fewer rows than columns
    monkeypatch.setattr(spectrum, "_ROWS", 7)
    for function, expected in zip(functions, whole, strict=True):
        torch.testing.assert_close(function(reps, centred), expected, rtol=1e-9, atol=1e-9)
