"""SynBench as its authors compute it, against the same in NumPy."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from scipy import optimize, stats
from torch import Tensor, nn

from holdfast.auditing.plan import Plan
from holdfast.core import Encoder
from holdfast.numerics.gaussian_classes.robust_bayes import fit
from holdfast.numerics.gaussian_classes.thin import thin_fit
from holdfast.parts.measures.synbench.synbench import Synbench
from holdfast.parts.observations.mixtures import Mixtures
from holdfast.runtime.errors import Conflict, NotEnough
from json_records import run_audit

Convention = Literal["sound", "authors"]
Halves = list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
EPSILONS, S = (0.0, 0.3, 0.7), (0.4, 1.0, 1.7, 2.6)


class Uneven(nn.Module):
    """Six numbers of nine pixels: of very different scales, one of them twice, one the sign of the mean."""

    def __init__(self, scale: float = 1.0):
        super().__init__()
        self.scale = scale
        self.mix = torch.randn(9, 4, generator=torch.Generator().manual_seed(2)) * torch.tensor([1, 0.3, 0.03, 1e-4])

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        y = torch.relu(x @ self.mix.to(x) + 0.1)
        return self.scale * torch.cat([y, y[:, :1], (x.mean(1, keepdim=True) - 0.5).sign()], 1)


def by_hand(train: np.ndarray, y: np.ndarray, test: np.ndarray, t: np.ndarray, epsilon: float) -> tuple[float, float]:
    """Return accuracy and mean scaled bound of the ε-robust classifier of a mixture fitted to one half."""
    means = train[y > 0].mean(0), train[y < 0].mean(0)
    deviations = np.where(y[:, None] > 0, train - means[0], train - means[1])
    values, vectors = np.linalg.eigh(deviations.T @ deviations / (len(y) - 2))
    kept = values > 1e-6
    values, vectors = values[kept], vectors[:, kept]
    mu = vectors.T @ (means[0] - means[1]) / 2
    reach = epsilon * np.linalg.norm(mu)

    def z(price: float) -> np.ndarray:
        return mu / (1 + price * values)

    if epsilon > 0:
        far = lambda p: float(np.linalg.norm(z(p)) - reach)  # noqa: E731
        price = optimize.root_scalar(far, bracket=(0, 1e12), xtol=1e-12, rtol=1e-14, maxiter=500).root
        left = mu - z(price)
    else:
        left = mu
    weights = vectors @ (left / values)
    scaled = (test - (means[0] + means[1]) / 2) @ weights * t / (mu @ (left / values))
    return float((scaled > 0).mean()), float(scaled[scaled > 0].mean())


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> Halves:
    """What is fitted to and what is tested, for each s."""
    seen: Halves = []
    test = Mixtures._test

    def spied(self: Mixtures, reps: Tensor, y: Tensor, tested: Tensor, t: Tensor) -> dict[str, Tensor]:
        seen.append((reps.double().numpy(), y.numpy(), tested.double().numpy(), t.numpy()))
        return test(self, reps, y, tested, t)

    monkeypatch.setattr(Mixtures, "_test", spied)
    return seen


def scores(folder: Path, convention: Convention, scale: float = 1.0) -> dict[str, dict]:
    mixtures = Mixtures(epsilons=EPSILONS, samples=300, separations=S, convention=convention)
    encoder = Encoder(nn.Sequential(Uneven(scale)), mean=0.0, std=1.0, name="uneven")
    plan = Plan(("uneven",), "gaussian?shape=1x3x3", (Synbench(mixtures),))
    record = run_audit(plan, folder, encoders={"uneven": encoder})
    assert record["failures"] == []
    return record["encoders"][0]["measures"]["synbench"]["scores"]


def test_the_authors_numbers(tmp_path: Path, halves: Halves) -> None:
    ours = scores(tmp_path / "a", "authors")
    assert len(halves) == len(S)  # one half of each s is tested
    thresholds = np.linspace(0.6, 1, 100)
    ideal = stats.norm.cdf(S), 1 + stats.norm.pdf(S) / (np.array(S) * stats.norm.cdf(S))
    for epsilon in EPSILONS:
        tested = np.array([by_hand(*half, epsilon) for half in halves]).T
        for start in (0.6, 0.7, 0.8):
            areas = []
            for accuracy, bound in (tested, ideal):
                passed = accuracy[:, None] > thresholds[thresholds >= start - 1e-9]
                areas.append((bound[:, None] * passed).mean(0).sum())
            score = ours[f"a_t {start:g}, ε {epsilon:g}"]
            assert score["value"] == pytest.approx(areas[0] / areas[1], rel=1e-6)
            assert score["low"] <= score["value"] <= score["high"]


def test_what_the_authors_drop(tmp_path: Path) -> None:
    """A number that is the class itself: theirs leaves it out where nothing varies, ours tells the classes by it."""
    signs = torch.tensor([1.0, -1.0] * 50)
    noise = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    reps = torch.cat([noise, signs[:, None]], 1)
    theirs, ours = thin_fit(reps, signs), fit(reps, signs)
    assert (theirs.values.numel(), ours.values.numel()) == (2, 3)
    zero = torch.zeros(1)
    assert ours.classifiers(zero).accuracy().item() == pytest.approx(1)
    assert theirs.classifiers(zero).accuracy().item() < 0.7
    # and their cut-off is a length
    assert thin_fit(1e-4 * reps, signs).values.numel() == 0
    assert thin_fit(1e-4 * reps, signs).classifiers(zero).relative_margins(reps, signs).abs().max() == 0
    torch.testing.assert_close(
        fit(1e-4 * reps, signs).classifiers(zero).accuracy(), ours.classifiers(zero).accuracy(), rtol=1e-9, atol=0
    )


@pytest.mark.slow
def test_the_scale_moves_the_authors_score_and_not_ours(tmp_path: Path) -> None:
    name = "a_t 0.7, ε 0"
    ours = [scores(tmp_path / f"sound {s}", "sound", s)[name]["value"] for s in (1, 2e-3)]
    theirs = [scores(tmp_path / f"authors {s}", "authors", s)[name]["value"] for s in (1, 2e-3)]
    assert ours[0] == pytest.approx(ours[1], rel=1e-4)
    assert theirs[1] < theirs[0] - 0.05


def test_bad_input() -> None:
    with pytest.raises(Conflict, match="shrinkage=ledoit_wolf"):
        Mixtures(convention="authors", shrinkage="ledoit_wolf")
    with pytest.raises(NotEnough, match="mixture"):
        thin_fit(torch.randn(4, 2), torch.tensor([1, 1, 1, -1]))
    with pytest.raises(NotEnough, match="mixture"):
        thin_fit(torch.full((4, 2), torch.nan), torch.tensor([1, 1, -1, -1]))
