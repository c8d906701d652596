"""Adversarial negatives: where they lie, what they reach, that nothing but seed and image decides them, brackets."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from holdfast.auditing.plan import Plan
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.cli import app
from holdfast.core import Encoder, Passes, Rng, Shard, registry
from holdfast.numerics.geometry.views import Views
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.measures.certified.instance_accuracy import InstanceAccuracy
from holdfast.parts.measures.certified.tightness import Tightness
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.adversarial_negatives import (
    AUTHORS_COLOUR,
    AUTHORS_GREY,
    AdversarialNegatives,
    _shift_images,
)
from holdfast.parts.observations.attacked_pairs import AttackedPairs
from holdfast.parts.observations.certified import Certified
from holdfast.parts.observations.minimal_radii import MinimalRadii
from holdfast.parts.observations.radii import Radii
from holdfast.parts.probes.linear import Linear
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Conflict, Missing
from holdfast.sources import encoders
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.digits import Digits
from json_records import run_audit

IMAGES = 12
QUICK = AdversarialNegatives(Linf(0.2), Pgd(20, 0.02, keep="last"))
ACCURACY = InstanceAccuracy(ball=Linf(0.03), attack=Apgd(8), negatives=QUICK)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return encoders.open_encoder("zoo:digits-simclr")


@pytest.fixture(scope="module")
def digits() -> torch.Tensor:
    source = Digits()
    pictures = [torch.as_tensor(source.load(i)) for i in range(IMAGES)]
    return torch.stack(pictures).float()


def shard(encoder: Encoder, x: torch.Tensor, some: slice = slice(None), seed: int = 3) -> Shard:
    ids = tuple(f"image-{i}" for i in range(len(x)))
    with torch.no_grad():
        clean = encoder(x)
    return Shard(encoder, x[some], torch.arange(len(x))[some], Rng(seed, ids=ids[some]), clean)


def knowing(where: Shard, negatives: AdversarialNegatives) -> Shard:
    seen = negatives.run(where)
    return replace(where, read={negatives: seen}.__getitem__)


def colours(channels: int) -> torch.Tensor:
    """One image, many times, whose pixels all differ."""
    return (torch.arange(channels * 48.0) / (channels * 48)).view(1, channels, 6, 8).expand(64, -1, -1, -1)


# --- views ---


@pytest.mark.parametrize("channels", [1, 3])
def test_views_are_shifts_with_repeated_edges_and_mirrors_of_colour_images(channels: int) -> None:
    x, shift = colours(channels), 2
    seen = _shift_images(x, shift, Rng(0, ids=tuple(map(str, range(64)))))
    padded = nn.functional.pad(x[:1], (shift,) * 4, mode="replicate")
    possible = {}
    for down in range(2 * shift + 1):
        for right in range(2 * shift + 1):
            cut = padded[0, :, down : down + 6, right : right + 8]
            possible[down, right, False] = cut
            if channels == 3:
                possible[down, right, True] = cut.flip(-1)
    drawn = [next(key for key, cut in possible.items() if torch.equal(cut, view)) for view in seen]
    assert {key[0] for key in drawn} == {key[1] for key in drawn} == set(range(2 * shift + 1))
    mirrored = sum(key[2] for key in drawn)
    assert mirrored == 0 if channels == 1 else 16 <= mirrored <= 48


def test_without_a_shift_a_grey_image_is_its_own_view() -> None:
    x = colours(1)
    assert torch.equal(_shift_images(x, 0, Rng(0, ids=tuple(map(str, range(64))))), x)


@pytest.mark.parametrize(("channels", "views", "least"), [(1, AUTHORS_GREY, 0.4), (3, AUTHORS_COLOUR, 0.08)])
def test_the_authors_views_are_random_crops_in_another_light(channels: int, views: Views, least: float) -> None:
    x = 0.2 + 0.6 * colours(channels)
    rng = Rng(0, ids=tuple(map(str, range(64))))
    drawn = AdversarialNegatives(view="authors").make_view(x, rng)
    assert torch.equal(drawn, views(x, rng))
    assert views.crop == (least, 1.0)
    still = replace(views, flip=0.0, colour=0.0, light=0.0, grey=0.0)(x, rng)
    if channels == 1:  # a linear ramp stays one: what is left of it is the share of the side that the crop shows
        area = still.diff(dim=2).mean((1, 2, 3)) * still.diff(dim=3).mean((1, 2, 3))
        shares = area / (x.diff(dim=2).mean((1, 2, 3)) * x.diff(dim=3).mean((1, 2, 3)))
        assert shares.min() > 0.3
        assert shares.median() < 0.9
    lit = (drawn - still).abs().amax((1, 2, 3)) > 1e-3
    assert int(lit.sum()) > 64 * 0.6
    assert int(lit.sum()) < 64 or channels == 3  # every fifth grey image keeps its light


# --- negatives ---


@pytest.mark.parametrize("ball", [Linf(0.2), L2(1.0)], ids=["linf", "l2"])
def test_negatives_lie_in_the_ball_move_and_leave_the_view(ball, encoder, digits) -> None:
    negatives = replace(QUICK, ball=ball, attack=Pgd(20, ball.radius / 10, keep="last"))
    where = shard(encoder, digits)
    found = negatives.search(where)
    made = found.images[20]
    assert (ball.size(made - digits) <= ball.radius * (1 + 1e-5)).all()
    assert made.min() >= 0
    assert made.max() <= 1
    assert (ball.size(made - digits) > ball.radius / 2).all()
    assert (found.values[-1] > found.values[0]).all()
    assert found.values[-1].mean() > 2 * found.values[0].mean()
    reps = negatives.run(where)["reps"]
    assert reps.shape == (IMAGES, 1, encoder(digits).shape[1])
    torch.testing.assert_close(reps[:, 0], encoder(made))


@pytest.mark.parametrize("negatives", [QUICK, replace(QUICK, view="authors")], ids=["shift", "authors"])
def test_the_objective_is_the_squared_distance_to_the_view(negatives, encoder, digits) -> None:
    where = shard(encoder, digits)
    rng = where.rng.child("adversarial negatives")
    view = encoder(negatives.make_view(digits, rng.child("view")))
    found = negatives.search(where)
    value = Untargeted("squared_l2")(encoder(found.images[20]), view)
    torch.testing.assert_close(found.values[-1], value)
    assert not torch.allclose(view, encoder(digits), atol=0.01)


def test_seed_and_image_decide_and_the_batch_does_not(encoder, digits) -> None:
    whole = QUICK.run(shard(encoder, digits))["reps"]
    parts = [QUICK.run(shard(encoder, digits, slice(i, i + 5)))["reps"] for i in range(0, IMAGES, 5)]
    size = whole.norm(dim=-1).mean()
    assert (torch.cat(parts) - whole).norm(dim=-1).max() < 0.01 * size
    other = QUICK.run(shard(encoder, digits, seed=4))["reps"]
    assert (other - whole).norm(dim=-1).median() > 0.01 * size


def test_passes_are_those_predicted(encoder, digits) -> None:
    where = shard(encoder, digits)
    before = encoder.passes
    AdversarialNegatives(attack=Pgd(3, 0.001)).run(where)
    assert encoder.passes - before == Passes(forward=5, backward=3) * IMAGES
    assert AdversarialNegatives().passes == Passes(forward=202, backward=200)


# --- margins against them ---


def test_margins_are_against_the_negatives(encoder, digits) -> None:
    where = knowing(shard(encoder, digits), QUICK)
    assert where.read is not None
    with torch.no_grad():
        clean = encoder(digits)
    margin = Cosine().between(clean, where.read(QUICK)["reps"])
    assert (margin(clean.double()) > 0).all()
    lower = Certified(ball=Linf(0.01), negatives=QUICK).run(where)["lower"]
    seen = AttackedPairs(Apgd(8), Linf(0.01), negatives=QUICK).run(where)
    torch.testing.assert_close(seen["clean"], margin(clean.double()))
    assert (lower < seen["margin"]).all()
    assert (seen["margin"] < seen["clean"]).all()


def test_radii_and_margins_agree(encoder, digits) -> None:
    where = knowing(shard(encoder, digits), QUICK)
    radius = Radii(negatives=QUICK, tolerance=1e-4).run(where)["radius"]
    assert radius.shape == (IMAGES, 1)
    at = float(radius.median())
    assert at > 0
    lower = Certified(ball=Linf(at), negatives=QUICK).run(where)["lower"]
    clear = (radius - at).abs() > 5e-4
    assert torch.equal((lower > 0)[clear], (radius > at)[clear])


# --- in audits ---


def test_an_audit_brackets_and_makes_the_negatives_once(encoder, digits, tmp_path: Path) -> None:
    measures = (ACCURACY, Tightness(ball=Linf(0.03), attack=Apgd(8), negatives=QUICK, first=6))
    plan = Plan(("it",), "arrays", measures, batch_size=5)
    record = run_audit(plan, tmp_path, encoders={"it": encoder}, source=Arrays(digits))
    assert record["failures"] == []
    (entry,) = record["encoders"]
    made = [o for o in entry["observations"] if o["part"]["name"] == "adversarial_negatives"]
    assert [o["serves"] for o in made] == [["instance_accuracy", "tightness"]]
    assert made[0]["passes"] == made[0]["predicted"] == {"forward": 22 * IMAGES, "backward": 20 * IMAGES, "bounds": 0}
    scores = entry["measures"]["instance_accuracy"]["scores"]
    assert 0 < scores["certificate"]["value"] <= scores["attack"]["value"] <= 1
    assert scores["attack"]["n"] == IMAGES
    for measure in ("instance_accuracy", "tightness"):
        for score in entry["measures"][measure]["scores"].values():
            assert "population" not in score["interval"]
    assert scores["attack"]["interval"].startswith("exact binomial")
    assert registry.build(registry.spec(ACCURACY)) == ACCURACY
    again = run_audit(plan, tmp_path, encoders={"it": encoder}, source=Arrays(digits))
    assert again["encoders"][0]["measures"]["instance_accuracy"]["scores"] == scores


class Detached(nn.Module):
    """A network without a gradient to the pixels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.detach().flatten(1)


def test_where_they_cannot_be_made_the_reason_is_given(digits, tmp_path: Path) -> None:
    plan = Plan(("it",), "arrays", (ACCURACY,))
    record = run_audit(plan, tmp_path, encoders={"it": Encoder(Detached(), mean=0, std=1)}, source=Arrays(digits))
    said = " ".join(record["failures"])
    assert "no gradient with respect to the pixels" in said
    assert len(record["failures"]) == 1  # what reads them is not tried
    assert record["encoders"][0]["measures"]["instance_accuracy"]["error"] in said


def test_negatives_drawn_from_the_population_are_as_before() -> None:
    drawn = InstanceAccuracy(negatives=3)
    assert [registry.part_name(o) for o in drawn.observations()] == ["clean", "certified", "attacked_pairs"]
    assert "population" in Tightness(negatives=3).condition
    assert not Tightness(negatives=QUICK).condition


def test_negatives_are_set_on_the_command_line(tmp_path: Path) -> None:
    made = {"kind": "observations", "name": "adversarial_negatives", "ball": {"name": "linf", "radius": 0.25}}
    made["attack"] = {"name": "pgd", "steps": 5, "step_size": 0.05}
    setting = f"instance_accuracy.negatives={json.dumps(made)}"
    plan = make_plan(AuditRequest(["it"], "digits", profile="certify", settings=[setting]))
    (accuracy,) = [measure for measure in plan.measures if isinstance(measure, InstanceAccuracy)]
    assert accuracy.negatives == AdversarialNegatives(Linf(0.25), Pgd(5, 0.05))
    file = tmp_path / "plan.toml"
    file.write_text(
        'encoders = ["zoo:digits-simclr"]\ndata = "digits"\nimages = 8\nattacked = 8\n'
        f"set = ['{setting}']\n"
        '[[measures]]\nname = "instance_accuracy"\n[measures.attack]\nname = "apgd"\nsteps = 4\n',
        encoding="utf-8",
    )
    done = CliRunner().invoke(app, ["audit", str(file), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "out" / "record.json").read_text(encoding="utf-8"))
    (entry,) = record["encoders"]
    titles = [observation["title"] for observation in entry["observations"]]
    assert "adversarial negatives: pgd, 5 steps, ℓ∞ ≤ 0.25" in titles
    assert entry["measures"]["instance_accuracy"]["scores"]["certificate"]["value"] is not None


def test_what_cannot_be_compared_is_refused(encoder, digits) -> None:
    with pytest.raises(BadValue, match=r"adversarial_negatives\.shift"):
        AdversarialNegatives(shift=-1)
    with pytest.raises(BadValue, match=r"adversarial_negatives\.view"):
        AdversarialNegatives(view="author")  # type: ignore[arg-type]
    with pytest.raises(Conflict, match="`first`"):
        InstanceAccuracy(negatives=AdversarialNegatives(first=3))
    with pytest.raises(Conflict, match="probe"):
        Certified(negatives=QUICK, probe=Linear())
    with pytest.raises(BadValue, match="minimal_radii"):
        MinimalRadii(negatives=QUICK)
    with pytest.raises(Missing, match="certified"):
        Certified(negatives=QUICK).run(shard(encoder, digits))


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("mnist_cnn_a_eps0", marks=pytest.mark.slow), "mnist_cnn_a_eps0.2"])
def test_robust_instance_accuracy_of_published_encoders_is_at_least_the_certified(
    name: str, shared: Path, tmp_path: Path
) -> None:
    published = encoders.open_encoder(f"file:{shared}/data/encoders/{name}.safetensors?mean=0&std=1")
    x = torch.tensor(np.load(shared / "data" / "mnist_test.npz")["images"][:10])[:, None] / 255
    accuracy = InstanceAccuracy(ball=Linf(0.1), attack=Apgd(20), negatives=AdversarialNegatives())
    plan = Plan(("it",), "arrays", (accuracy,))
    record = run_audit(plan, tmp_path, encoders={"it": published}, source=Arrays(x))
    assert record["failures"] == []
    scores = record["encoders"][0]["measures"]["instance_accuracy"]["scores"]
    attack, certificate = scores["attack"]["value"], scores["certificate"]["value"]
    assert certificate <= attack
    assert (attack < 0.5) if name.endswith("eps0") else (certificate == 1)  # trained against attacks: all are proved
