"""Intervals that know of other draws: their coverage, and audits of randomised encoders from end to end."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

from holdfast.auditing.plan import Plan
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.core import Encoder, HoldfastError, Score, registry
from holdfast.core.randomness import GROUPS
from holdfast.numerics import statistics
from holdfast.numerics.statistics.redrawn import widen_interval
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.checks.frozen import Frozen
from holdfast.parts.checks.gradient_health import GradientHealth
from holdfast.parts.checks.steps_converged import StepsConverged
from holdfast.parts.measures.drift.naive_overstatement import NaiveOverstatement
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.breaking_radius import BreakingRadius
from holdfast.parts.observations.shared.judged_again import reevaluate_with_new_draws
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, UnknownName
from holdfast.runtime.listener import Silent
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.encoders import check_encoder, open_encoder
from json_records import run_audit

# --- intervals --------------------------------------------------------------------------------------


def test_an_interval_is_widened_in_quadrature_by_students_t() -> None:
    score = Score(2.0, 1.0, 4.0, 30, "of the images", note="a note")
    wide = widen_interval(score, [2.0, 2.0, 2.0, 2.0 + math.sqrt(5)])  # s = 1 of five
    t = 2.776445
    assert (wide.low, wide.high) == pytest.approx((2 - math.hypot(1, t), 2 + math.hypot(2, t)), rel=1e-6)
    assert wide.interval == "of the images, widened by 4 other groups of draws"
    assert wide.note == "a note; other draws give 2 to 4.24"
    clipped = widen_interval(score, [2.0, 2.0, 2.0, 2.0 + math.sqrt(5)], 0.5, 3.0)
    assert (clipped.low, clipped.high) == (0.5, 3.0)
    same = widen_interval(score, [2.0, 2.0])
    assert (same.low, same.high) == (1.0, 4.0)


@pytest.mark.parametrize("others", [[1.0, math.nan], [math.inf, 1.0]])
def test_what_is_not_defined_by_other_draws_is_not_widened(others: list[float]) -> None:
    score = Score(2.0, 1.0, 4.0, 30, "of the images")
    assert widen_interval(score, others) == Score(2.0, 1.0, 4.0, 30, "of the images, given its draws")
    nothing = Score(None, None, None, 0, "none")
    assert widen_interval(nothing, [1.0, 2.0]).value is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("images", "draws"),
    [(1.0, 1.0), *(pytest.param(*both, marks=pytest.mark.slow) for both in ((1.0, 0.1), (0.1, 1.0)))],
)
def test_the_mean_over_images_and_draws_is_covered(images: float, draws: float) -> None:
    """Errors of images and of draws are independent; without the widening many intervals miss."""
    generator, runs, n = torch.Generator().manual_seed(2), 400, 40
    held = plain = 0
    for _ in range(runs):
        rows = images * math.sqrt(n) * torch.randn(n, generator=generator, dtype=torch.float64)
        groups = draws * torch.randn(GROUPS + 1, generator=generator, dtype=torch.float64)
        scores = [statistics.mean(rows + shift) for shift in groups]
        wide = widen_interval(scores[0], [float(score.value) for score in scores[1:]])
        held += wide.low <= 0 <= wide.high
        plain += scores[0].low <= 0 <= scores[0].high
    assert held >= 0.93 * runs
    assert plain < 0.9 * runs or draws < images


# --- audits -----------------------------------------------------------------------------------------

IMAGES, ATTACKED = 24, 10


class Noisy(nn.Module):
    """A small network behind random shifts and noise."""

    def __init__(self, noise: float, own: bool = False) -> None:
        super().__init__()
        self.noise, self.own = noise, own
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 5))
        self.generator = torch.Generator().manual_seed(1)

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.randn(x.shape[1:], generator=self.generator if self.own else None)
        return self.net(x + self.noise * noise)


class Rounding(nn.Module):
    """Rounds pixels to quarters."""

    def forward(self, x: Tensor) -> Tensor:
        return (x * 4).round() / 4


def purifying() -> nn.Module:
    network = nn.Sequential()
    network.add_module("purify", Rounding())
    network.add_module("net", Noisy(0.0))
    return network


def audit(folder: Path, encoder: Encoder, **plan: Any) -> dict[str, Any]:
    x = torch.rand(IMAGES, 1, 4, 4, generator=torch.Generator().manual_seed(5))
    attack = Pgd(5)
    chosen = {
        "measures": (NaiveOverstatement(attack, Linf(0.1), readouts=(2, 5)), BreakingRadius(ball=Linf(0.1))),
        "checks": (Frozen(), GradientHealth()),
        "batch_size": 8,
    } | plan
    listener = chosen.pop("listener", None)
    asked = Plan(("it",), "arrays", images=IMAGES, attacked=ATTACKED, **chosen)
    return run_audit(asked, folder, encoders={"it": encoder}, source=Arrays(x, None), listener=listener)


def of(noise: float, **options: Any) -> Encoder:
    return Encoder(Noisy(noise, own=options.pop("own", False)), mean=0, std=1, **options)


def table(folder: Path, record: dict[str, Any]) -> dict[str, list[float]]:
    (entry,) = record["encoders"]
    return pq.read_table(folder / entry["measures"]["naive_overstatement"]["table"]).to_pydict()


def test_every_draw_is_counted_as_foretold_and_scores_say_what_draws_change(tmp_path: Path) -> None:
    record = audit(tmp_path, of(0.2, draws=3))
    assert record["failures"] == []
    (entry,) = record["encoders"]
    for observation in entry["observations"]:
        if observation["part"]["name"] != "breaking_radii":  # which may end early
            assert observation["passes"] == observation["predicted"], observation["title"]
    costs = {o["part"]["name"]: o["passes"] for o in entry["observations"]}
    reads = 2 * (1 + GROUPS) * 3
    assert costs["clean"] == {"forward": IMAGES * (1 + GROUPS) * 3, "backward": 0, "bounds": 0}
    assert costs["attacked"] == {"forward": ATTACKED * (6 * 3 + reads), "backward": ATTACKED * 5 * 3, "bounds": 0}
    assert costs["naively_attacked"] == {"forward": ATTACKED * (6 + reads), "backward": ATTACKED * 5, "bounds": 0}
    scores = entry["measures"]["naive_overstatement"]["scores"]
    assert list(scores) == ["naive attack", "adaptive attack", "2 steps", "5 steps"]
    for score in scores.values():
        assert score["interval"].endswith(f"widened by {GROUPS} other groups of draws")
        assert score["low"] < score["value"] < score["high"]
        assert "other draws give" in score["note"]
    for score in entry["measures"]["breaking_radius"]["scores"].values():
        assert score["interval"].endswith("given its draws") or score["interval"].startswith("none")


class Heard(Silent):
    """Hears how much work there is, and how much of it is done."""

    total = done = 0

    def begin(self, encoder: str, passes: int, unit: str = "passes") -> None:
        self.total += passes

    def advance(self, passes: int) -> None:
        self.done += passes


def test_progress_is_told_of_every_draw(tmp_path: Path) -> None:
    heard = Heard()
    measures = (NaiveOverstatement(Pgd(2), Linf(0.1), readouts=(2,)),)
    record = audit(tmp_path, of(0.2, draws=3), measures=measures, checks=(), listener=heard)
    passes = record["encoders"][0]["passes"]
    assert heard.total == heard.done == passes["forward"] + passes["backward"]


def test_other_draws_give_the_scores_of_an_encoder_of_these_draws(tmp_path: Path, monkeypatch) -> None:
    """By hand: the table of group 2, from representations by its draws outside of any audit."""
    seen: list[Any] = []

    def keep(score: Score, others: list[float], *limits: float) -> Score:
        seen.append(others)
        return widen_interval(score, others, *limits)

    monkeypatch.setattr("holdfast.auditing.score.widen_interval", keep)
    encoder = of(0.2, draws=3)
    measure = NaiveOverstatement(Pgd(5), Linf(0.1), readouts=(5,))
    record = audit(tmp_path, encoder, measures=(measure,), checks=())
    x = torch.rand(IMAGES, 1, 4, 4, generator=torch.Generator().manual_seed(5))
    again = reevaluate_with_new_draws(encoder, x, "reps")
    assert list(again) == [f"redrawn{group}.reps" for group in range(1, GROUPS + 1)]
    own = encoder(x)
    assert all(not torch.allclose(own, reps) for reps in again.values())
    assert [len(others) for others in seen] == [GROUPS] * 3
    for others in seen:
        assert len({*others}) == GROUPS
    score = record["encoders"][0]["measures"]["naive_overstatement"]["scores"]["5 steps"]
    assert f"{min(seen[-1]):.3g} to {max(seen[-1]):.3g}" in score["note"]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("size", [3, 24])
def test_batches_do_not_matter(tmp_path: Path, size: int) -> None:
    tables = []
    for number, batch_size in enumerate((8, size)):
        folder = tmp_path / str(number)
        measures = (NaiveOverstatement(Pgd(5), Linf(0.1), readouts=(5,)),)
        record = audit(folder, of(0.2, draws=2), batch_size=batch_size, measures=measures, checks=())
        tables.append(table(folder, record))
    for name, values in tables[0].items():
        assert tables[1][name] == (
            values if name == "id" else pytest.approx(values, rel=1e-3, abs=1e-4, nan_ok=True)
        ), name


def test_draws_follow_from_the_seed_of_the_run(tmp_path: Path) -> None:
    encoder = of(0.2, draws=2)
    audit(tmp_path, encoder, seed=7, measures=(UniversalQuantile(Pgd(2), Linf(0.1), readouts=(2,)),), checks=())
    assert encoder.seed == 7


@pytest.mark.slow
def test_a_purifier_hides_its_gradient_until_it_is_named(tmp_path: Path) -> None:
    plain = audit(tmp_path / "plain", Encoder(purifying(), mean=0, std=1))["encoders"][0]
    assert plain["checks"]["gradient_health"]["status"] == "fail"
    assert "?straight_through=MODULE" in plain["checks"]["gradient_health"]["meaning"]
    named = Encoder(purifying(), mean=0, std=1, straight_through=["purify"])
    through = audit(tmp_path / "through", named)["encoders"][0]
    assert through["checks"]["gradient_health"]["status"] == "warn"  # eighths are coarse beside the ball
    (hidden, shown) = (entry["measures"]["naive_overstatement"]["scores"] for entry in (plain, through))
    assert hidden["5 steps"]["value"] == 0
    assert hidden["adaptive attack"]["value"] == pytest.approx(shown["naive attack"]["value"], rel=1e-6)
    assert shown["5 steps"]["low"] > 0.05


# --- the check ----------------------------------------------------------------------------------------


def verdict(tmp_path: Path, encoder: Encoder) -> dict[str, Any]:
    measures = (UniversalQuantile(Pgd(2), Linf(0.1), readouts=(2,)),)
    return audit(tmp_path, encoder, measures=measures, checks=(Frozen(),))["encoders"][0]["checks"]["frozen"]


def test_frozen_says_that_an_encoder_is_random_and_what_to_do(tmp_path: Path) -> None:
    found = verdict(tmp_path, of(0.2))
    assert (found["status"], found["called"]) == ("fail", "Random")
    assert found["finding"].startswith("stochastic: passes of the same images differ by")
    assert "?draws=k" in found["meaning"]


def test_frozen_says_how_much_noise_the_mean_has(tmp_path: Path) -> None:
    encoder = of(0.02, draws=9)
    found = verdict(tmp_path, encoder)
    assert found["status"] == "pass"
    # the same, image by image, for the first ones of the audit
    order = pq.read_table(next(tmp_path.rglob("universal_quantile*.parquet"))).to_pydict()["id"]
    x = torch.rand(IMAGES, 1, 4, 4, generator=torch.Generator().manual_seed(5))[[int(name) for name in order]]
    each, clean, expected = encoder.each_draw(x, 9), encoder(x), []
    for i in range(8):
        distances = [math.inf if i == j else float((clean[i] - clean[j]).norm()) for j in range(IMAGES)]
        difference = each[:, i] - each[:, distances.index(min(distances))]
        expected.append((difference.var(0).sum() / 9).sqrt() / difference.mean(0).norm())
    assert found["details"]["noise"] == pytest.approx(float(torch.stack(expected).median()), rel=1e-4)


def test_frozen_asks_for_more_draws_where_the_noise_is_large(tmp_path: Path) -> None:
    found = verdict(tmp_path, of(0.5, draws=2))
    assert found["status"] == "warn"
    needed = math.ceil(2 * (found["details"]["noise"] / 0.1) ** 2)
    assert f"take ?draws={needed} or more" in found["meaning"]


def test_frozen_says_where_draws_are_in_vain(tmp_path: Path) -> None:
    found = verdict(tmp_path, of(0.0, draws=4))
    assert (found["status"], found["finding"]) == ("warn", "the mean of 4 draws that are all the same")
    assert "they cost 4 times as much" in found["meaning"]


def test_frozen_fails_for_generators_that_no_seed_reaches(tmp_path: Path) -> None:
    found = verdict(tmp_path, of(0.2, draws=4, own=True))
    assert (found["status"], found["called"]) == ("fail", "Random")
    assert "a generator of its own" in found["meaning"]


def test_frozen_names_what_makes_it_slow(tmp_path: Path) -> None:
    class Deciding(Noisy):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * (2 if float(x.detach().mean()) > 0.5 else 1)

    found = verdict(tmp_path, Encoder(Deciding(0.02), mean=0, std=1, draws=3))
    assert "image by image, which is slow" in found["finding"]


def test_steps_are_compared_as_the_search_saw_them(tmp_path: Path) -> None:
    """The end of a search is judged by other draws, which would look like a fall."""
    attack, ball = Pgd(10), Linf(0.1)
    checks, measures = (StepsConverged(attack, ball),), (UniversalQuantile(attack, ball),)
    record = audit(tmp_path, of(0.4, draws=2), measures=measures, checks=checks)
    found = record["encoders"][0]["checks"]["steps_converged"]
    assert found["finding"].startswith("the last 2 of 9 steps")
    assert found["details"]["rise"] >= 0


# --- specs --------------------------------------------------------------------------------------------

CODE = """
import torch
from torch import nn
from holdfast.core import Encoder

class Noise(nn.Module):
    def forward(self, x):
        return x + 0.1 * torch.randn_like(x)

def bare():
    network = nn.Sequential()
    network.add_module("noise", Noise())
    network.add_module("flat", nn.Flatten())
    return network

def whole():
    return Encoder(bare(), mean=0, std=1, draws=2)
"""


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Encoder]:
    (tmp_path / "randomised_nets.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield open_encoder
    sys.modules.pop("randomised_nets", None)


def test_specs_say_draws_and_steps_whatever_the_source(opened) -> None:
    encoder = opened("py:randomised_nets:bare?mean=0&std=1&draws=8&straight_through=noise")
    assert (encoder.draws, encoder.straight_through) == (8, ("noise",))
    assert (encoder.origin["draws"], encoder.origin["straight_through"]) == (8, "noise")
    assert opened("py:randomised_nets:whole").draws == 2
    assert opened("py:randomised_nets:whole?draws=5").draws == 5
    assert opened("zoo:digits-simclr?draws=2").draws == 2
    assert opened("zoo:digits-simclr").draws is None


def test_what_is_wrong_with_draws_is_said_before_anything_is_opened(opened) -> None:
    with pytest.raises(BadValue, match="draws=0"):
        check_encoder("py:randomised_nets:bare?mean=0&std=1&draws=0")


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ("draws=0", BadValue, "draws=0"),
        ("draws=-2", BadValue, "draws=-2"),
        ("draws=many", BadValue, "draws=many"),
        ("draw=8", UnknownName, r"'draws'\?"),
        ("straight_through=nois", UnknownName, r"'noise'\?"),
    ],
)
def test_specs_that_are_wrong(opened, options: str, kind: type[HoldfastError], message: str) -> None:
    spec = f"py:randomised_nets:bare?mean=0&std=1&{options}"
    with pytest.raises(kind, match=message):
        opened(spec)


def test_the_profile_asks_for_both_attacks() -> None:
    plan = make_plan(AuditRequest(["zoo:digits-simclr"], "digits", profile="randomised"))
    assert "naive_overstatement" in {registry.part_name(measure) for measure in plan.measures}
