"""Impersonation where it is known: images of one pixel, whose way to their target is a straight line."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.auditing.plan import Plan
from holdfast.core import (
    Bank,
    Classifier,
    Encoder,
    Head,
    Images,
    Observation,
    Passes,
    Probe,
    Rng,
    Shard,
    Table,
    Threat,
)
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.classifiers.impersonation_rate import ImpersonationRate
from holdfast.parts.measures.classifiers.probe_accuracy import ProbeAccuracy
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.impersonated import Impersonated
from holdfast.parts.observations.shared.label_sets import predict_membership
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Conflict, Mismatch, Missing, NotEnough
from json_records import run_audit
from searched import Unsearched

PIXELS = [0.1, 0.6, 0.2, 0.9, 0.55, 0.7, 0.3, 0.8, 0.45, 0.95]
LABELS = [0, 1, 0, 2, 0, 1, 0, 1, 1, 2]
"""The head says class 0 below ½ and class 1 above: the images at 4 and 8 are wrong, those at 3 and 9 of class 2."""
PAIRS = {0: 1, 2: 5, 6: 7}
WALK = Pgd(50, 0.01, start="nudge", keep="last")
"""After s steps the pixel has moved by 0.01 s, by ε, or to its target, whichever is least."""


def head(bias: float = -0.5) -> Head:
    return Head(torch.tensor([[0.0], [1.0], [0.0]]), torch.tensor([0.0, bias, -9.0]), torch.arange(3))


def shard(pixels: list[float] = PIXELS, labels: list[int] = LABELS, bias: float = -0.5) -> Shard:
    x = torch.tensor(pixels).view(-1, 1, 1, 1)
    ids = tuple(str(i) for i in range(len(x)))
    encoder = Encoder(nn.Flatten(), mean=0, std=1)
    return Shard(
        encoder, x, torch.arange(len(x)), Rng(0, ids=ids), x.flatten(1), labels=torch.tensor(labels),
        head=lambda probe: head(bias),
    )  # fmt: skip


def seen_by(observation: Impersonated, some: list[int], whole: Shard) -> dict[str, Tensor]:
    at = torch.tensor(some)
    return observation.run(replace(whole, x=whole.x[at], positions=at, rng=whole.rng.at([str(i) for i in some])))


LOOK = Impersonated(WALK, Linf(0.25), readouts=(0, 15, 25, 50))


def test_pairs_are_made_in_order_of_what_the_head_knows() -> None:
    found = LOOK.run(shard())
    partner = torch.full((10,), -1)
    for number, (one, other) in enumerate(PAIRS.items()):
        partner[one], partner[other] = other, one
        assert found["pair"][[one, other]].tolist() == [number] * 2
    assert torch.equal(found["partner"], partner)
    assert torch.equal(found["pair"] < 0, partner < 0)
    right = torch.tensor([1, 1, 1, math.nan, 0, 1, 1, 1, 0, math.nan]).double()
    torch.testing.assert_close(found["right"], right, equal_nan=True)


def test_who_is_taken_for_its_partner_and_when() -> None:
    """½ is .4, .1, .3, .2, .2, .3 away from the images of the three pairs; ε is .25 and a step .01."""
    found = LOOK.run(shard())
    expected = {0: [0] * 6, 15: [0, 1, 0, 0, 0, 0], 25: [0, 1, 0, 1, 1, 0], 50: [0, 1, 0, 1, 1, 0]}
    paired = [i for pair in PAIRS.items() for i in pair]
    for step, taken in expected.items():
        assert found[f"taken@{step}"][paired].tolist() == taken
        assert found[f"taken@{step}"].isnan().sum() == 4
    assert found["said"][paired].tolist() == [0, 0, 0, 0, 1, 1]
    assert (found["said"][[3, 4, 8, 9]] == -1).all()


def test_the_attack_goes_to_the_target_and_not_beyond_the_ball() -> None:
    found = replace(LOOK, ball=Linf(0.3)).run(shard())
    assert found["gallery.position"].tolist() == sorted([*PAIRS, *PAIRS.values()])
    ends = dict(zip(found["gallery.position"].tolist(), found["gallery.image"].flatten().tolist(), strict=True))
    for one, other in PAIRS.items():
        for own, target in ((one, other), (other, one)):
            way = max(-0.3, min(0.3, PIXELS[target] - PIXELS[own]))
            assert ends[own] == pytest.approx(PIXELS[own] + way, abs=0.011)


def test_the_attack_does_not_look_at_the_head() -> None:
    """Another head that knows the same images: other verdicts, the same attacked images."""
    look = replace(LOOK, ball=Linf(0.28))  # 0.8 ends at 0.52
    first, second = look.run(shard()), look.run(shard(bias=-0.54))
    assert torch.equal(first["partner"], second["partner"])
    assert torch.equal(first["gallery.image"], second["gallery.image"])
    assert not torch.equal(first["said"], second["said"])


def test_a_tie_is_no_impersonation() -> None:
    """Both end at ½ exactly, where the head prefers neither."""
    found = Impersonated(WALK, Linf(0.25)).run(shard([0.25, 0.75], [0, 1]))
    assert found["gallery.image"].flatten().tolist() == [0.5, 0.5]
    assert found["taken@50"].tolist() == [0, 0]


def test_pairs_depend_on_no_shard_and_others_cost_nothing() -> None:
    whole, part = shard(), Impersonated(Pgd(20, 0.02), Linf(0.25))
    together = part.run(whole)
    for some in ([0, 1, 2], [3, 8, 9], [4, 5, 6, 7], [7, 0]):
        whole.encoder.passes = Passes()
        found = seen_by(part, some, whole)
        for name in ("partner", "pair", "right", "said", "taken@20"):
            assert torch.equal(found[name].nan_to_num(-1), together[name][some].nan_to_num(-1)), name
        paired = int((together["partner"][some] >= 0).sum())
        assert whole.encoder.passes == part.passes * paired
        assert len(found["gallery.image"]) == len(found["gallery.position"]) == paired


def test_only_the_first_pairs_are_kept_as_pictures() -> None:
    found = LOOK.run(shard([0.3, 0.7] * 20, [0, 1] * 20))
    assert int(found["pair"].max()) == 19
    assert found["gallery.position"].tolist() == list(range(12))


def test_readouts_of_several_measures_share_one_trajectory() -> None:
    long, short = replace(LOOK, first=4), replace(LOOK, attack=replace(WALK, steps=15), readouts=(5,), first=6)
    assert long.key() == short.key()
    both = long.join(short)
    assert isinstance(both, Impersonated)
    assert (both.steps, both.attack, both.first) == ((0, 5, 15, 25, 50), WALK, 6)
    joined, alone = both.run(shard()), short.run(shard())
    assert torch.equal(joined["taken@5"].nan_to_num(-1), alone["taken@5"].nan_to_num(-1))
    assert long.key() != replace(LOOK, classes=(1, 0)).key()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"classes": (1, 1)}, r"\[1, 1\]"),
        ({"classes": (1, "0-3")}, r"\[1, '0-3'\]"),
        ({"known_as": (1, 1)}, r"\[1, 1\]"),
        ({"known_as": (1,)}, r"\[1\]"),
        ({"classes": (1, "7-3")}, "'7-3'"),
        ({"classes": (1, "cats")}, "cats"),
        ({"objective": Untargeted()}, "untargeted"),
        ({"readouts": (51, 60)}, r"\[51, 60\]"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(fields: dict, words: str) -> None:
    with pytest.raises(BadValue, match=words):
        ImpersonationRate(**fields)


def test_labels_and_classes_must_be_there() -> None:
    with pytest.raises(Missing, match="impersonated"):
        LOOK.run(replace(shard(), labels=None, head=None))
    with pytest.raises(NotEnough, match="class 5"):
        replace(LOOK, classes=(0, 5)).run(shard())


def test_a_class_may_be_a_set_of_labels() -> None:
    """Classes 1 and 2 against 0: the head gives 1 where 2 is the label, which is of the set."""
    found = replace(LOOK, classes=(0, "1-2")).run(shard())
    assert found["right"][[3, 9]].tolist() == [1, 1]
    partners = {0: 1, 2: 3, 6: 5}
    assert {one: int(found["partner"][one]) for one in partners} == partners
    assert found["taken@50"][[2, 3]].tolist() == [0, 0]  # 0.2 ends at 0.45, 0.9 at 0.65
    assert found["taken@50"][[6, 5]].tolist() == [1, 1]


def test_a_set_needs_its_best_label_ahead_of_all_others() -> None:
    """Logits 0, x - ½ and (x - ½) / 2: classes 1 and 2 lie above ½ together, and tie with 0 there."""
    split = Head(torch.tensor([[0.0], [1.0], [0.5]]), torch.tensor([0.0, -0.5, -0.25]), torch.tensor([4, 6, 8]))
    reps = torch.tensor([[0.4], [0.5], [0.6], [math.nan]])
    assert predict_membership(split, reps, "6-8").tolist() == [False, False, True, False]
    assert predict_membership(split, reps, 4).tolist() == [True, False, False, False]
    assert predict_membership(split, reps, 8).tolist() == [False, False, False, False]
    with pytest.raises(Mismatch, match=r"\[4, 6, 8\]"):
        predict_membership(split, reps, 5)
    with pytest.raises(Mismatch, match="3 classes"):
        predict_membership(split, reps, "1-9")


def test_a_head_of_other_classes_judges_images_of_two(tmp_path: Path) -> None:
    """Dark and bright images, a head of four shades learned elsewhere: ½ is its border, and ε is .25."""
    np.savez(
        tmp_path / "pets.npz",
        images=np.array([0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.4, 0.6], np.float32)[:, None, None].repeat(4, 1).repeat(4, 2),
        labels=np.array([0, 1] * 4),
        classes=["dark", "bright"],
    )
    shades = np.repeat([0.05, 0.35, 0.65, 0.95], 30) + np.tile(np.linspace(-0.04, 0.04, 30), 4)
    np.savez(
        tmp_path / "shades.npz",
        images=shades.astype(np.float32)[:, None, None].repeat(4, 1).repeat(4, 2),
        labels=np.repeat([2, 3, 4, 5], 30),
        classes=["none", "nothing", "black", "grey", "silver", "white"],
    )
    measure = replace(MEASURE, known_as=("2-3", "4-5"))
    plan = Plan(("it",), str(tmp_path / "pets.npz"), (measure,), train=str(tmp_path / "shades.npz"))
    encoders = {"it": Encoder(nn.Flatten(), mean=0, std=1)}
    record = run_audit(plan, tmp_path / "out", encoders=encoders)
    assert record["failures"] == []
    scores = record["encoders"][0]["measures"]["impersonation_rate"]["scores"]
    # .3 ends at .55 and .4 at .65, which is bright; .1 at .35 and .2 at .45, which is not
    assert {name: score["value"] for name, score in scores.items() if name.endswith("50 steps")} == {
        "0 as 1, 50 steps": 0.5, "1 as 0, 50 steps": 0.5, "50 steps": 0.5,
    }  # fmt: skip
    (pictures,) = record["encoders"][0]["impersonations"]
    assert sum(entry["taken"] for side in pictures["sides"] for entry in side) == 4
    assert {entry["said"] for side in pictures["sides"] for entry in side} <= {2, 3, 4, 5}

    # what reads the images' own labels as well needs classes of the same names
    both = replace(plan, measures=(measure, ProbeAccuracy()))
    with pytest.raises(Mismatch, match="dark"):
        run_audit(both, tmp_path / "both", encoders=encoders)
    # and a head that knows neither set says so
    lost = replace(plan, measures=(replace(measure, known_as=("7-8", 9)),))
    failures = run_audit(lost, tmp_path / "lost", encoders=encoders)["failures"]
    assert any("labels 7-8: expected some that the head knows" in why for why in failures)


@dataclass
class Told(Unsearched):
    """A subject of which so many images are attacked."""

    attacked: int
    labels: Tensor = field(default_factory=lambda: torch.tensor(LABELS))
    seed: int = 0
    encoder: Encoder = field(default_factory=lambda: Encoder(nn.Flatten(), mean=0, std=1))
    population = 10
    has_training_set = False
    ids = tuple(map(str, range(10)))

    def read(self, observation: Observation) -> dict[str, Tensor]:
        assert isinstance(observation, Impersonated)
        return seen_by(observation, list(range(self.attacked)), shard())

    def batch(self, start: int, stop: int) -> Images:
        raise AssertionError

    def bank(self, threat: Threat | None = None) -> Bank:
        raise AssertionError

    def fit_probe(self, probe: Probe, threat: Threat | None = None) -> Classifier:
        raise AssertionError


MEASURE = ImpersonationRate(attack=WALK, ball=Linf(0.25), readouts=(15, 50))


def test_both_directions_apart_and_together() -> None:
    scores = MEASURE.score(MEASURE.observe(Told(10)))  # pyright: ignore[reportArgumentType]
    found = {name: (score.value, score.n) for name, score in scores.items()}
    third = pytest.approx(1 / 3)
    assert found == {
        "0 as 1, 15 steps": (0, 3),
        "0 as 1, 50 steps": (third, 3),
        "1 as 0, 15 steps": (third, 3),
        "1 as 0, 50 steps": (pytest.approx(2 / 3), 3),
        "15 steps": (pytest.approx(1 / 6), 3),
        "50 steps": (0.5, 3),
    }
    assert list(scores)[-1] == "50 steps"
    assert "Korn-Graubard" in scores["50 steps"].interval
    assert not any(score.note for score in scores.values())


def test_a_pair_counts_where_both_were_attacked() -> None:
    table = MEASURE.observe(Told(7))  # pyright: ignore[reportArgumentType]
    assert table["pair"].tolist() == [0, 0, 1, -1, -1, 1, -1]  # the partner of the last one is at 7
    assert table["way"].tolist() == [0, 1, 0, -1, 0, 1, 0]
    assert int(table["taken@50"].isnan().sum()) == 3
    assert MEASURE.score(table)["50 steps"].n == 2
    assert len(MEASURE.influence(table)) == 7
    assert not MEASURE.influence(table).isnan().any()


STEADY = replace(LOOK, attack=Pgd(30, 0.01, start="image", keep="last"), ball=Linf(0.05), readouts=(3, 20, 30))
"""Each read-out lets the pixel go on by a step of .01 for each of its own, .05 at most."""


def test_a_ball_that_is_laid_anew_lets_images_go_further() -> None:
    """After 3, 20 and 30 steps they may have moved by .03, .03 + .05 and .03 + .05 + .05."""
    found = replace(STEADY, restart=True).run(shard())
    for one, other in PAIRS.items():
        for own, target in ((one, other), (other, one)):
            for step, most in ((3, 0.03), (20, 0.08), (30, 0.13)):
                way = min(most, abs(PIXELS[target] - PIXELS[own]))
                assert found[f"moved@{step}"][own].item() == pytest.approx(way, abs=1e-6)
    assert found["moved@30"].isnan().sum() == 4
    assert "moved@30" not in STEADY.run(shard())
    ends = dict(zip(found["gallery.position"].tolist(), found["gallery.image"].flatten().tolist(), strict=True))
    assert ends[0] == pytest.approx(PIXELS[0] + 0.13, abs=1e-6)


def test_only_the_first_search_starts_at_random() -> None:
    look = replace(STEADY, attack=Pgd(6, 1e-9, keep="last"), readouts=(2, 4, 6), restart=True)
    moved = look.run(shard())
    assert moved["moved@2"].nan_to_num(0).max() > 0.01
    torch.testing.assert_close(moved["moved@6"], moved["moved@2"], equal_nan=True, atol=1e-6, rtol=0)


def test_restarts_cost_what_they_say_and_share_no_run_with_other_readouts() -> None:
    look, whole = replace(STEADY, restart=True), shard()
    found = look.run(whole)
    assert whole.encoder.passes == look.passes * int((found["partner"] >= 0).sum())
    assert look.passes == Passes(forward=33, backward=30)
    assert look.key() != replace(look, readouts=(20, 30)).key()
    assert look.key() == replace(look, attack=replace(look.attack, steps=50), first=3).key()
    joined = look.join(replace(look, first=3))
    assert isinstance(joined, Impersonated)
    assert (joined.steps, joined.restart) == ((3, 20, 30), True)
    part = seen_by(look, [1, 2], shard())
    assert torch.equal(part["moved@30"], found["moved@30"][[1, 2]])


@dataclass
class Restarted(Told):
    """A subject whose attacks restart their ball."""

    def read(self, observation: Observation) -> dict[str, Tensor]:
        assert isinstance(observation, Impersonated)
        assert observation.restart
        return observation.run(shard())


def test_the_rate_says_that_images_left_the_ball_and_how_far() -> None:
    measure = ImpersonationRate(
        attack=replace(WALK, start="image"), ball=Linf(0.05), readouts=(4, 20, 40, 50), restart=True
    )
    table = measure.observe(Restarted(10))  # pyright: ignore[reportArgumentType]
    scores = measure.score(table)
    assert [scores[f"outside the ball, {step} steps"].value for step in (4, 20, 40, 50)] == [0, 1, 1, 1]
    for step, farthest in ((4, "0.04 from the clean ones, 0.8 ε"), (50, "0.19 from the clean ones, 3.8 ε")):
        for name in (f"{step} steps", f"0 as 1, {step} steps"):
            assert farthest in scores[name].note
            assert "no attack within the ball" in scores[name].note
    # 0.55 and 0.7 come below ½ or 0.45 above it; within one ball none does
    assert scores["50 steps"].value == pytest.approx(1 / 6)
    assert list(scores)[-1] == "50 steps"
    # what each image does to an earlier read-out, of which images those that are paired
    taken, paired = table["taken@20"], table["pair"] >= 0
    expected = (taken - taken[paired].mean()).masked_fill(~paired, 0.0)
    torch.testing.assert_close(measure.influence(table, "20 steps"), expected)


@pytest.mark.parametrize(
    "fields", [{"attack": Pgd(30)}, {"readouts": (0, 10)}, {"attack": Apgd(30)}], ids=["size", "start", "other"]
)
def test_a_restart_needs_steps_of_a_size_of_their_own(fields: dict) -> None:
    with pytest.raises(Conflict) as error:
        replace(STEADY, **({"attack": WALK, "restart": True} | fields))
    assert "expected pgd with a step_size" in str(error.value)


def test_without_a_pair_the_rate_is_undefined_and_says_why() -> None:
    nan = torch.nan
    table: Table = {
        "taken@15": torch.full((4,), nan), "taken@50": torch.full((4,), nan), "pair": torch.full((4,), -1),
        "way": torch.tensor([0, 0, 1, -1]), "right": torch.tensor([1.0, 0.0, 0.0, nan]),
    }  # fmt: skip
    for score in MEASURE.score(table).values():
        assert score.value is None
        assert "1 of 2 attacked images of class 0 and 0 of 1 attacked images of class 1" in score.note
    assert not MEASURE.influence(table).isnan().any()


def test_usual_readouts_follow_the_attack() -> None:
    assert ImpersonationRate().steps == (3, 10, 30, 50)
    assert ImpersonationRate(attack=Pgd(20)).steps == (3, 10, 20)
    assert ImpersonationRate(attack=Pgd(3)).steps == (3,)
