"""Smallest changes by which copies escape and others are taken for copies: against closed forms of linear encoders."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast.auditing.plan import Plan
from holdfast.core import Ball, Encoder, Failure, HoldfastError, Observation, Rng, Shard
from holdfast.core.divergence import read_divergence
from holdfast.numerics.geometry.matching import matches
from holdfast.numerics.statistics.broken_median import BrokenMedian
from holdfast.numerics.statistics.looks import looking
from holdfast.numerics.statistics.thresholds import MedianAtRate, rates
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.shared import tournament
from holdfast.parts.failures.collided import Collided
from holdfast.parts.failures.shared.thresholds import ENDS
from holdfast.parts.failures.unmatched import Unmatched
from holdfast.parts.measures.probabilistic.adversarial_robustness import AdversarialRobustness
from holdfast.parts.measures.retrieval.matching import Matching
from holdfast.parts.measures.retrieval.matching_radius import MatchingRadius
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.edited import Edited
from holdfast.parts.observations.match_threshold import NOWHERE, MatchThreshold
from holdfast.parts.observations.thumbnails import Thumbnails
from holdfast.parts.threats.brightness import Brightness
from holdfast.parts.threats.edit import Edit
from holdfast.parts.threats.extreme import Extreme
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.sources.data.arrays import Arrays
from json_records import run_audit
from searched import Unsearched

N, RATE = 40, 0.02
WRONG: Any = "middle"


class Linear(nn.Module):
    """x -> W x."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        weight = torch.randn(dim, 36, generator=torch.Generator().manual_seed(1)) / 6
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.weight.T


class Rounded(nn.Module):
    """An encoder that hides its gradient: pixels are rounded to sixteen levels."""

    def forward(self, x: Tensor) -> Tensor:
        return (x * 15).round().flatten(1) / 15 + 0 * x.flatten(1)


def pictures(count: int = N) -> Tensor:
    """Images without much contrast, so that no smallest change ends at black or white."""
    return 0.4 + 0.2 * torch.rand(count, 1, 6, 6, generator=torch.Generator().manual_seed(0))


def shard(module: nn.Module, images: Tensor, labels: Tensor | None = None) -> Shard:
    encoder, rows = Encoder(module, mean=0, std=1), torch.arange(len(images))
    with torch.no_grad():
        clean = encoder(images)
    known: dict[Observation, dict[str, Tensor]] = {}

    def read(observation: Observation) -> dict[str, Tensor]:
        if observation not in known:
            known[observation] = observation.run(whole)
        return known[observation]

    rng = Rng(0, ids=tuple(str(int(row)) for row in rows))
    whole = Shard(encoder, images, rows, rng, clean, lambda at: images[at], labels=labels, read=read)
    return whole


def constant() -> Shard:
    return replace(shard(Linear(2), pictures()), clean=torch.ones(N, 2))


def distances(clean: Tensor, leave_out: Any = lambda i, j: False) -> list[float]:
    """The distances of all pairs that count, in rising order."""
    clean = clean.double()
    pairs = ((i, j) for i in range(len(clean)) for j in range(i) if not leave_out(i, j))
    return sorted(float((clean[i] - clean[j]).norm()) for i, j in pairs)


def test_the_threshold_and_its_ends_are_those_of_the_pairs_that_count() -> None:
    images = pictures()
    images[7] = images[3] + 1 / 255  # one picture twice
    labels = torch.arange(N) % 3
    seen = shard(Linear(4), images, labels)
    assert seen.clean is not None
    kinds: Any = {"images": lambda i, j: False, "classes": lambda i, j: i % 3 == j % 3}
    for negatives, left_out in kinds.items():
        pairs = distances(seen.clean, lambda i, j, also=left_out: (j, i) == (3, 7) or also(i, j))
        found = MatchThreshold(RATE, negatives=negatives).run(seen)
        low, high = (float(found[f"rate {end}"]) for end in ("low", "high"))
        assert low < RATE < high
        given = rates(RATE, found["near"][0], len(pairs))
        assert (low, high) == pytest.approx(given)
        for name, rate in (("threshold", RATE), ("low", low), ("high", high)):
            assert float(found[name]) == pytest.approx(pairs[int(rate * len(pairs))]), name
        assert (int(found["allowed"]), int(found["pairs"])) == (int(RATE * len(pairs)), len(pairs))
        whole = seen.read(Thumbnails())["thumbnails"] if seen.read else None
        assert whole is not None
        classes = labels if negatives == "classes" else None
        same = matches(seen.clean, whole, torch.empty(0), RATE, read_divergence("l2"), classes)
        assert torch.equal(found["near"][0], same.near)
        assert float(found["threshold"]) == same.threshold


def smallest_projection(weight: Tensor, apart: Tensor, limit: float) -> float:
    """min ||δ|| such that ||u + W δ|| = t: δ = -(WᵀW + λ)⁻¹ Wᵀ u, for the λ that a bisection finds."""
    low, high, delta = 1e-12, 1e9, torch.zeros(weight.shape[1])
    for _ in range(200):
        factor = math.sqrt(low * high)
        gram = weight.T @ weight + factor * torch.eye(weight.shape[1], dtype=torch.float64)
        delta = -torch.linalg.solve(gram, weight.T @ apart)
        far = bool((apart + weight @ delta).norm() > limit)
        low, high = (low, factor) if far else (factor, high)
    return float(delta.norm())


@pytest.mark.parametrize("end", ENDS)
def test_smallest_changes_of_a_linear_encoder_are_those_of_its_matrix(end: Any) -> None:
    seen, weight = shard(module := Linear(8), pictures()), module.weight.detach().double()
    limit = float(MatchThreshold(RATE).run(seen)[ENDS[end]])
    found = BreakingRadii(L2(), Unmatched(RATE, end=end), steps=150).run(seen)["radius"]
    truth = limit / float(torch.linalg.svdvals(weight)[0])  # along the first singular vector
    assert (found >= truth * (1 - 1e-6)).all()
    assert (found <= truth * 1.05).all()
    assert seen.clean is not None
    apart = seen.clean.double() - seen.clean[torch.arange(N) ^ 1].double()
    nearest = torch.tensor([smallest_projection(weight, u, limit) if u.norm() >= limit else 0.0 for u in apart])
    found = BreakingRadii(L2(), Collided(RATE, end=end), steps=60).run(seen)
    assert (found["radius"] >= nearest * (1 - 1e-5)).all()
    assert (found["radius"] <= nearest * 1.05 + 1e-6).all()
    assert torch.equal(found["rival"], torch.arange(N) ^ 1)


@pytest.mark.parametrize("ball", [Linf(), L2()])
def test_smallest_changes_along_one_number_are_exact_in_both_norms(ball: Ball) -> None:
    """|w · δ| is at most ε times the dual norm of w."""
    seen, weight = shard(module := Linear(1), pictures()), module.weight.detach().double()
    dual = float(weight.abs().sum() if isinstance(ball, Linf) else weight.norm())
    limit = float(MatchThreshold(0.4).run(seen)["threshold"])
    found = BreakingRadii(ball, Unmatched(0.4), steps=40).run(seen)["radius"]
    torch.testing.assert_close(found, torch.full_like(found, limit / dual), rtol=5e-3, atol=0)
    assert seen.clean is not None
    apart = (seen.clean - seen.clean[torch.arange(N) ^ 1]).double().abs().squeeze(1)
    found = BreakingRadii(ball, Collided(0.4), steps=60).run(seen)["radius"]
    assert 0 < int((apart < limit).sum()) < N
    torch.testing.assert_close(found, (apart - limit).clamp_min(0) / dual, rtol=2e-2, atol=1e-6)


@pytest.mark.parametrize("name", ["l2", "cosine", "l1", "hamming"])
def test_values_are_above_zero_exactly_where_the_definition_says(name: str) -> None:
    random, divergence = torch.Generator().manual_seed(2), read_divergence(name)
    seen = replace(shard(nn.Flatten(), pictures()), clean=torch.randn(N, 12, generator=random))
    assert seen.clean is not None
    clean, rate = seen.clean.double(), 0.3
    found = MatchThreshold(rate, divergence).run(seen)
    limit = float(found["threshold"])
    seen = replace(seen, read=lambda _: found)
    other = clean[torch.arange(N) ^ 1]
    reps = torch.stack([clean + size * torch.randn(N, 12, generator=random) for size in (0.3, 1, 3)], 1)
    reps = torch.cat([reps, other[:, None] + 0.5 * torch.randn(N, 2, 12, generator=random)], 1)
    pairs: list[tuple[Failure, Tensor]] = [
        (Unmatched(rate, divergence), divergence(reps, clean[:, None].expand_as(reps)) >= limit),
        (Collided(rate, divergence), divergence(reps, other[:, None].expand_as(reps)) < limit),
    ]
    for failure, failed in pairs:
        event = failure.bind(seen)
        assert 0.1 < failed.double().mean() < 0.9
        assert torch.equal(event(reps, torch.arange(N)) > 0, failed)
        assert torch.equal(event(reps[5:9], torch.arange(5, 9)) > 0, failed[5:9])  # some rows of the shard
        assert not failure.provable
        assert failure.rivals(seen) is None
    at_start = Collided(rate, divergence).bind(seen)(clean[:, None], torch.arange(N)).squeeze(1)
    apart = divergence(clean, other) >= limit
    assert torch.allclose(at_start[apart & (divergence(clean, other) > limit)], torch.tensor(-1.0).double())
    if name == "hamming":  # whole numbers: many lie at the threshold itself, and fail clearly
        at = divergence(reps, clean[:, None].expand_as(reps)) == limit
        assert int(at.sum()) > 5
        assert (Unmatched(rate, divergence).bind(seen)(reps, torch.arange(N))[at] > 1e-4).all()


def test_searches_begin_at_images_where_it_fails() -> None:
    seen = shard(Linear(4), pictures(41))
    assert seen.clean is not None
    clean, limit = seen.clean.double(), float(MatchThreshold(RATE).run(seen)["threshold"])
    begins = Unmatched(RATE).fails_at(seen)
    for own, other in enumerate(begins.tolist()):
        apart = (clean - clean[own]).norm(dim=1)
        assert float(apart[other]) == pytest.approx(float(apart[apart >= limit].min()))
    partner = Collided(RATE).fails_at(seen)
    assert partner[:40].tolist() == [i ^ 1 for i in range(40)]
    assert int(partner[40]) == 40, "the last of an odd number has no partner"
    event = Collided(RATE).bind(seen)
    assert event(clean[[0, 40], None], torch.tensor([0, 40]))[1] < -1e5
    assert event(clean[[39, 39], None], torch.tensor([38, 40])).squeeze(1).sign().tolist() == [1, -1]
    assert Collided(RATE).identify(seen, clean)[[0, 40]].tolist() == [1, -1]


def test_without_a_gradient_a_change_is_found_for_every_image() -> None:
    seen = shard(Rounded(), pictures())
    for failure in (Unmatched(RATE), Collided(RATE)):
        observation = BreakingRadii(L2(), failure, steps=30)
        before = seen.encoder.passes
        found = observation.run(seen)
        assert found["radius"].isfinite().all(), failure.title
        spent = seen.encoder.passes - before
        assert (spent.forward, spent.backward) == (observation.passes.forward * N, observation.passes.backward * N)
        value = failure.bind(seen)(found["reps"][:, None].double(), torch.arange(N)).squeeze(1)
        assert (value > 0).all()


def test_a_first_step_that_goes_too_far_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A distance from x itself is flat at x, and a steep network looks otherwise far away."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 8))
    with torch.no_grad():
        net[1].weight.mul_(2000)  # pyright: ignore[reportArgumentType, reportCallIssue]
        net[3].weight.mul_(5)  # pyright: ignore[reportArgumentType, reportCallIssue]
    seen = shard(net, torch.rand(N, 1, 6, 6, generator=torch.Generator().manual_seed(0)))
    observation = BreakingRadii(Linf(), Unmatched(RATE), steps=60)
    back, before = observation.run(seen)["radius"].median(), seen.encoder.passes
    monkeypatch.setattr(tournament, "RETREATING", math.inf)
    straight = observation.run(seen)["radius"].median()
    spent = seen.encoder.passes - before
    assert back < 0.6 * straight
    assert (spent.forward + spent.backward) / 2 <= 60 * N


def test_a_brightness_that_evades_is_the_threshold_of_means() -> None:
    class Mean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1).mean(1, keepdim=True)

    seen = shard(Mean(), pictures())
    limit = float(MatchThreshold(0.2).run(seen)["threshold"])
    edit = Edit(Extreme(Brightness(limit / 4)), Extreme(Brightness(4.25 * limit)))
    found = Edited(edit, Unmatched(0.2), strengths=5, halvings=6).run(seen)
    step = 4 * limit / (4 * 2**6)
    shift = limit / 4 + 4 * limit * found["strength"]
    assert (shift >= limit * (1 - 5e-3)).all()  # amounts have three digits
    assert (shift <= limit * (1 + 5e-3) + step).all()


@dataclass
class Given(Unsearched):
    """A subject whose radii are given."""

    radii: dict[Failure, Tensor]
    found: dict[str, Tensor]
    population: int = 12
    attacked: int = 8

    def read(self, observation: Observation) -> dict[str, Tensor]:
        match observation:
            case MatchThreshold():
                return self.found
            case BreakingRadii():
                return {"radius": self.radii[observation.failure]}
        raise AssertionError(observation)


def given() -> Any:
    radii: dict[Failure, Tensor] = {}
    evasion = torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8]).double()
    collision = torch.tensor([0.0, 0, 30, 40, 50, 60, 70, 80]).double()  # the first pair matches as it is
    shifts: Any = {"low": -0.5, "": 0.0, "high": 0.5}
    for end, shift in shifts.items():
        radii[Unmatched(0.1, end=end)] = evasion + shift
        radii[Collided(0.1, end=end)] = (collision - 10 * shift) * (collision > 0)
    numbers = {"threshold": 2.0, "low": 1.5, "high": 2.5, "allowed": 20, "pairs": 200}
    near = 0.1 + 0.05 * torch.randn(12, generator=torch.Generator().manual_seed(0)).double()
    low, high = rates(0.1, near, 200)
    columns = {
        k: torch.tensor([float(v)]).double() for k, v in (numbers | {"rate low": low, "rate high": high}).items()
    }
    return Given(radii, columns | {"near": near[None]})


def test_scores_are_medians_and_what_was_found_at_a_harder_threshold_counts() -> None:
    subject, measure = given(), MatchingRadius(0.1, L2())
    subject.radii[Unmatched(0.1, end="high")][7] = 0.5  # which evades at smaller thresholds, too
    subject.radii[Collided(0.1, end="low")][2] = 5.0  # which collides at larger thresholds, too
    table = measure.observe(subject)
    assert table["evasion"][:8].tolist() == [1, 2, 3, 4, 5, 6, 7, 0.5]
    assert table["evasion@low"][:8].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 0.5]
    assert table["collision"][2:8].tolist() == [5, 40, 50, 60, 70, 80]
    assert table["collision@high"][2:8].tolist() == [5, 35, 45, 55, 65, 75]
    assert table["collision"][:2].isnan().all()
    assert all(len(column) == 12 for column in table.values())
    assert table["evasion"][8:].isnan().all()
    scores = measure.score(table)
    assert list(scores) == ["collision", "evasion"]
    assert scores["evasion"].value == 3.5
    assert scores["collision"].value == 55.0
    assert scores["evasion"].n == 8
    assert scores["collision"].n == 3, "pairs"
    assert scores["evasion"].note == "threshold 2 in l2: 20 of 200 pairs of 12 images match"
    alone: Any = BrokenMedian(table["evasion"][:8]).score()
    assert scores["evasion"].low is not None
    assert scores["evasion"].high is not None
    assert scores["evasion"].low < alone.low < alone.high < scores["evasion"].high
    assert "given this threshold, and of the threshold" in scores["evasion"].interval
    charts: Any = measure.charts(table, scores)
    (chart,) = charts
    assert [line.style for line in chart.lines] == ["solid", "dashed"]
    solid = chart.lines[0]
    at = [place for place, share in zip(solid.x, solid.y, strict=True) if share is not None and share >= 0.5]
    assert 3 <= at[0] <= 3.3, "half evade after the fourth radius"
    assert all(low <= y <= high for low, y, high in zip(solid.low, solid.y, solid.high, strict=True))


def test_the_interval_of_a_median_knows_that_the_threshold_is_estimated() -> None:
    size, near = torch.linspace(1, 3, 200).double(), torch.full((200,), 0.05).double()
    alone: Any = BrokenMedian(size).score()

    def of(near: Tensor, pairs: float, shift: float) -> Any:
        low, high = rates(0.05, near, pairs)
        sizes = {low: size - shift, 0.05: size, high: size + shift}
        return MedianAtRate(sizes, near, 0.05, pairs)

    exact = of(near, 1e12, 1e-6).score()
    assert (exact.value, exact.low, exact.high) == pytest.approx((2.0, alone.low, alone.high), abs=1e-4)
    uneven = near * (1 + torch.randn(200, generator=torch.Generator().manual_seed(0)))
    for shift in (0.3, -0.3):  # larger thresholds take larger changes, or smaller ones
        wide = of(uneven, 19900, shift)
        score = wide.score()
        assert score.low < alone.low - 0.1
        assert score.high > alone.high + 0.1
        with looking(3):  # a wider interval of the rate: further along the same line
            further = wide.score()
        assert further.low < score.low
        assert further.high > score.high
        lines = [wide.at(rate) for rate in wide.sizes]
        assert lines == pytest.approx([2 - shift, 2, 2 + shift])
        last = list(wide.sizes)[2]
        assert wide.at(2 * last - 0.05) == pytest.approx(2 + 2 * shift)
        # an image whose pairs lie low pulls the threshold down, and with it what changes it takes
        steeper = (wide.influence() - of(near, 19900, shift).influence())[uneven > 0.06]
        assert (steeper < 0).all() if shift > 0 else (steeper > 0).all()
    unbroken = size.clone()
    unbroken[90:] = torch.inf
    low, high = rates(0.05, near, 19900)
    score = MedianAtRate({low: size, 0.05: size, high: unbroken}, near, 0.05, 19900).score()
    assert (score.value, score.low, score.high) == (2.0, None, None)
    assert "no number at an end of the threshold's interval" in score.note
    assert MedianAtRate({low: size, 0.05: unbroken, high: unbroken}, near, 0.05, 19900).score().value is None


def audit(folder: Path, measures: tuple, images: Tensor, **plan: Any) -> dict:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.Tanh(), nn.Linear(24, 6))
    encoder = Encoder(net, mean=0.5, std=0.5, origin={"normalisation": "a test"})
    asked = Plan(("it",), "arrays", measures, (), images=len(images), attacked=12, **plan)
    return run_audit(asked, folder, encoders={"it": encoder}, source=Arrays(images))


def test_an_audit_holds_shares_and_radii_of_one_threshold_together(tmp_path: Path) -> None:
    """What evades in a ball has a radius within it, and is found there by an attack with the same failure."""
    images, ball = torch.rand(60, 1, 6, 6, generator=torch.Generator().manual_seed(4)), Linf(0.062)
    measures = (
        Matching(0.02, attack=Apgd(20), ball=ball),
        MatchingRadius(0.02, steps=60),
        AdversarialRobustness(Unmatched(0.02), "all", attack=Apgd(4), ball=ball),
        AdversarialRobustness(Collided(0.02), attack=Apgd(4), ball=Linf(0.1)),
    )
    record = audit(tmp_path, measures, images)
    assert record["failures"] == []
    entries = list(record["encoders"][0]["measures"].values())
    evasion, radius = (entry["scores"]["evasion"] for entry in entries[:2])
    assert evasion["note"].split(";")[0] == radius["note"].split(";")[0], "one threshold"
    held = entries[2]["scores"]["images that hold"]["value"]
    assert 0.5 < evasion["value"] < 1
    assert radius["value"] <= 1.02 * ball.radius
    assert 0 <= held <= 1 - evasion["value"] + 1e-9
    assert entries[3]["error"] is None
    assert [part["failure"]["name"] for part in (entry["part"] for entry in entries[2:])] == ["unmatched", "collided"]


def test_too_few_images_for_a_threshold_are_told(tmp_path: Path) -> None:
    images = torch.rand(30, 1, 6, 6, generator=torch.Generator().manual_seed(4))
    record = audit(tmp_path, (MatchingRadius(), Matching(0.05, attack=Apgd(4))), images)
    (radius, matching) = record["encoders"][0]["measures"].values()
    assert "leaves 0 of 435 pairs of 30 images, and a threshold needs 10; use 142 images" in radius["error"]
    assert matching["error"] is None
    few = torch.randn(N, 2, generator=torch.Generator().manual_seed(0))
    few[:5] = few[0]  # 10 of 780 pairs are at distance 0: below the rate, and within its interval
    found = MatchThreshold(RATE).run(replace(constant(), clean=few))
    assert float(found["low"]) == NOWHERE
    assert float(found["threshold"]) > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Unmatched(0.0), "unmatched: rate: expected a share of pairs in"),
        (lambda: Collided(1.0), "collided: rate: expected a share of pairs in"),
        (lambda: MatchingRadius(2.0), "rate: expected a share of pairs in"),
        (lambda: MatchingRadius(divergence=read_divergence("dot")), "never below 0, got dot"),
        (lambda: MatchingRadius(steps=3), "expected steps >= 10, got 3"),
        (lambda: MatchingRadius(negatives=WRONG), "negatives: expected 'images' or 'classes'"),
        (lambda: Unmatched(end=WRONG), "end: expected '' or 'low' or 'high', got 'middle'"),
        (lambda: MatchingRadius(first=0), "first: expected"),
        (lambda: Unmatched().bind(replace(shard(Linear(2), pictures()), read=None)), "reads a threshold"),
        (lambda: MatchThreshold(RATE).run(constant()), "more than a share of 0.02 of 780 pairs"),
        (lambda: MatchThreshold(RATE, negatives="classes").run(shard(Linear(2), pictures())), "images with labels"),
    ],
)
def test_what_has_no_threshold_is_refused(make: Any, message: str) -> None:
    with pytest.raises(HoldfastError) as error:
        make()
    assert message in str(error.value)


def test_measures_that_take_any_failure_are_given_the_threshold_first() -> None:
    measure = AdversarialRobustness(Unmatched(0.02))
    assert measure.prerequisites()[:2] == (Thumbnails(), MatchThreshold(0.02))
    assert set(measure.observations()) <= set(measure.prerequisites())
    assert AdversarialRobustness().prerequisites() == AdversarialRobustness().observations()
    radius = MatchingRadius()
    assert Clean() in radius.observations()
    assert [search.objective for search in radius.searches] == [Unmatched(), Collided()]
    assert [search.objective for search in radius.relies_on("collision")] == [Collided()]
    assert MatchingRadius(negatives="classes").needs_labels
    assert Collided(negatives="classes").needs_labels
    assert not radius.needs_labels
