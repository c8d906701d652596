"""Certificates in audits, against known answers: linear encoders in closed form, attacks on the other side."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from holdfast.auditing.plan import Plan
from holdfast.core import Encoder, Head, HoldfastError, Rng, Shard, registry
from holdfast.core.divergence import read_divergence as as_divergence
from holdfast.numerics.geometry.negatives import draw_negatives
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.checks.radius_order import RadiusOrder
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.measures.certified.certified_accuracy import CertifiedAccuracy
from holdfast.parts.measures.certified.certified_breakaway_risk import CertifiedBreakawayRisk
from holdfast.parts.measures.certified.certified_drift import CertifiedDrift
from holdfast.parts.measures.certified.certified_nearest_neighbour_accuracy import CertifiedNearestNeighbourAccuracy
from holdfast.parts.measures.certified.certified_overlap_risk import CertifiedOverlapRisk
from holdfast.parts.measures.certified.certified_radius import CertifiedRadius
from holdfast.parts.measures.certified.instance_accuracy import InstanceAccuracy
from holdfast.parts.measures.certified.linear_radius import LinearRadius
from holdfast.parts.measures.certified.tightness import Tightness
from holdfast.parts.measures.shared.bracket import Bracket, in_order
from holdfast.parts.measures.shared.drift import drift_bounds
from holdfast.parts.objectives.instance_contrastive import InstanceContrastive
from holdfast.parts.objectives.pair_margin import PairMargin
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked_pairs import AttackedPairs
from holdfast.parts.observations.certified import Certified
from holdfast.parts.observations.drifts import Drifts
from holdfast.parts.observations.logit_radii import LogitRadii
from holdfast.parts.observations.minimal_radii import MinimalRadii
from holdfast.parts.observations.radii import Radii
from holdfast.parts.probes.linear import Linear
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Failed, Missing, UnknownName, Unsupported
from holdfast.sources.data.arrays import Arrays
from json_records import run_audit

IMAGES, PIXELS, DIM, K = 12, 16, 6, 4
BRACKETS = (
    CertifiedRadius(negatives=K, tolerance=1e-4, steps=10),
    InstanceAccuracy(ball=Linf(0.03), attack=Apgd(8), negatives=K),
    CertifiedBreakawayRisk(ball=Linf(0.03), attack=Apgd(8)),
    CertifiedNearestNeighbourAccuracy(ball=Linf(0.03), attack=Apgd(8)),
    CertifiedOverlapRisk(ball=Linf(0.03), attack=Apgd(8)),
    CertifiedDrift(ball=Linf(0.03), attack=Apgd(8)),
    Tightness(ball=Linf(0.03), attack=Apgd(8), negatives=K),
)


@pytest.fixture(scope="module")
def pictures() -> torch.Tensor:
    """Images in the middle of the pixel range, so that small balls are not clipped."""
    return 0.3 + 0.4 * torch.rand(IMAGES, 1, 4, 4, generator=torch.Generator().manual_seed(2))


def linear() -> Encoder:
    net = nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, DIM))
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return Encoder(net, mean=0, std=1, name="linear")


def matrix(encoder: Encoder) -> torch.Tensor:
    return next(p for p in encoder.parameters() if p.ndim == 2).double()


def curved() -> Encoder:
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, DIM)
    )
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 2)
    return Encoder(net, mean=0.5, std=0.5, name="curved")


def shard(encoder: Encoder, x: torch.Tensor, some: slice = slice(None)) -> Shard:
    with torch.no_grad():
        clean = encoder(x)
    ids = tuple(f"image-{i}" for i in range(len(x)))
    return Shard(encoder, x[some], torch.arange(len(x))[some], Rng(3, ids=ids[some]), clean, lambda where: x[where])


def audit(folder: Path, encoder: Encoder, x: torch.Tensor, *measures: Bracket, **options) -> dict:
    asked = Plan(("it",), "arrays", measures, **{"attacked": 8, "batch_size": 4, **options})
    return run_audit(asked, folder, encoders={"it": encoder}, source=Arrays(x))


# --- observations ---


@pytest.mark.sweep(3)
@pytest.mark.parametrize("divergence", ["cosine", "l2"])
@pytest.mark.parametrize("ball", [Linf(0.02), L2(0.1)], ids=["linf", "l2"])
def test_a_linear_encoder_has_the_radius_of_the_closed_form(ball, divergence, pictures) -> None:
    """R = m / ||Wᵀw||_1 for ℓ∞ and m / ||Wᵀw||_2 for ℓ2, as long as no pixel is clipped: from both sides."""
    encoder, where = linear(), shard(linear(), pictures)
    radii = Radii(ball=ball, negatives=K, divergence=divergence)
    others = radii.others(where)
    assert where.clean is not None
    clean = where.clean.double()
    margin = as_divergence(divergence).between(clean, clean[others])
    slopes = margin.weights @ matrix(encoder)
    norm = slopes.abs().sum(-1) if isinstance(ball, Linf) else slopes.norm(dim=-1)
    exact = margin(clean) / norm
    inside = exact < 0.25  # farther than that a pixel may reach 0 or 1
    assert inside.double().mean() > 0.3
    certified = radii.run(where)["radius"]
    torch.testing.assert_close(certified[inside], exact[inside], rtol=1e-4, atol=2e-6)
    found = MinimalRadii(ball=ball, negatives=K, divergence=divergence, steps=60).run(where)["radius"]
    assert (found >= certified).all()
    assert (found[inside] / exact[inside] - 1).abs().max() < 0.03
    assert (found / certified).max() < 1.1  # clipped ones too


def test_certified_margins_of_a_linear_encoder_are_exact(pictures) -> None:
    where, ball = shard(linear(), pictures), Linf(0.05)
    seen = Certified(ball=ball, negatives=None).run(where)
    assert where.clean is not None
    clean = where.clean.double()
    margin = Cosine().between(clean, clean.expand(IMAGES, -1, -1))
    slopes = margin.weights @ matrix(linear())
    exact = margin(clean) - 0.05 * slopes.abs().sum(-1)
    own = torch.eye(IMAGES, dtype=torch.bool)
    assert seen["lower"][own].isnan().all()
    torch.testing.assert_close(seen["lower"][~own], exact[~own], rtol=1e-5, atol=1e-6)


def test_drift_of_a_linear_encoder_is_exact_coordinate_by_coordinate(pictures) -> None:
    where = shard(linear(), pictures)
    seen = Drifts(ball=Linf(0.05)).run(where)
    reach = 0.05 * matrix(linear()).abs().sum(1)
    torch.testing.assert_close(seen["high"], reach.expand(IMAGES, -1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(seen["low"], -seen["high"], rtol=1e-5, atol=1e-6)
    assert where.clean is not None
    clean = where.clean.double()
    towards = torch.arange(IMAGES) ^ 1
    away = (clean - clean[towards]) / (clean - clean[towards]).norm(dim=1, keepdim=True)
    slope = (away @ matrix(linear())).abs().sum(1)
    torch.testing.assert_close(seen["apart"], (clean - clean[towards]).norm(dim=1) - 0.05 * slope, rtol=1e-5, atol=1e-6)


def test_drift_bounds_hold_for_every_image_of_the_ball(pictures) -> None:
    encoder, ball = curved(), Linf(0.05)
    where = shard(encoder, pictures)
    assert where.clean is not None
    bounds = drift_bounds(Drifts(ball=ball).run(where), where.clean.double())

    for attempt in range(50):
        with torch.no_grad():
            moved = encoder(ball.sample(pictures, where.rng.child(attempt))).double()
        for name, bound in bounds.items():
            assert (as_divergence(name)(moved, where.clean.double()) <= bound + 1e-6).all()
    assert (bounds["cosine"] < 2).any()
    assert (bounds["cosine"] <= 2).all()


def test_attacks_stay_above_certificates(pictures) -> None:
    where, ball = shard(curved(), pictures), Linf(0.05)
    lower = Certified(ball=ball, negatives=K).run(where)["lower"]
    for objective in (AttackedPairs().objective, InstanceContrastive(), Untargeted("squared_l2")):
        seen = AttackedPairs(Apgd(8), ball, objective, negatives=K).run(where)
        assert (seen["margin"] + seen["rounding"] >= lower).all()
        assert (seen["margin"] <= seen["clean"]).all()
    certified = Radii(negatives=K, tolerance=1e-4).run(where)["radius"]
    assert (MinimalRadii(negatives=K, steps=30).run(where)["radius"] >= certified).all()


@pytest.mark.slow
def test_minimal_radii_are_those_of_real_images(pictures) -> None:
    """At a radius a little larger than what was found, a strong attack confuses the pair; far below it does not."""
    encoder = curved()
    where = shard(encoder, pictures)
    found = MinimalRadii(negatives=1, steps=60).run(where)["radius"][:, 0]
    assert found.isfinite().all()
    for image in (0, 3, 7):
        one = shard(encoder, pictures, slice(image, image + 1))
        for factor, broken in ((1.02, True), (0.5, False)):
            seen = AttackedPairs(Pgd(100, restarts=3), Linf(min(1.0, factor * float(found[image]))), negatives=1).run(
                one
            )
            assert bool(seen["margin"] < 1e-3 * seen["clean"]) == broken


OBSERVATIONS = (
    Radii(negatives=K, tolerance=1e-4),
    MinimalRadii(negatives=K, steps=10),
    Certified(negatives=K),
    Certified(negatives=None, divergence="l2"),
    Drifts(),
    AttackedPairs(Apgd(5), negatives=K),
)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("observation", OBSERVATIONS, ids=lambda o: type(o).__name__)
def test_observations_do_not_depend_on_the_batch(observation, pictures) -> None:
    encoder = curved()
    whole, part = (observation.run(shard(encoder, pictures, some)) for some in (slice(0, 8), slice(3, 6)))
    for name, values in part.items():
        expected = whole[name][3:6].double()
        torch.testing.assert_close(values.double(), expected, rtol=1e-3, atol=2e-4, equal_nan=True)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("observation", OBSERVATIONS, ids=lambda o: type(o).__name__)
def test_observations_cost_what_they_say(observation, pictures) -> None:
    encoder = curved()
    where = shard(encoder, pictures)
    before = encoder.passes
    observation.run(where)
    spent = encoder.passes - before
    predicted = observation.passes * IMAGES
    assert (spent.forward, spent.backward) == (predicted.forward, predicted.backward)
    assert spent.bounds == predicted.bounds or (isinstance(observation, Radii) and spent.bounds > 0)


def test_radii_share_one_run_whatever_the_ball() -> None:
    assert Radii(ball=Linf(0.1)).key() == Radii(ball=Linf(0.3), first=4).key()
    assert Radii(ball=Linf(0.1)).key() != Radii(ball=L2(0.1)).key()
    assert Radii(first=3).join(Radii(first=9)).images(100, 50) == 9
    assert Radii(first=3).join(Radii()).images(100, 50) == 50


def test_a_negative_that_is_the_image_itself_has_radius_zero(pictures) -> None:
    twins = pictures.clone()
    twins[1] = twins[0]
    where = shard(curved(), twins)
    negatives = IMAGES - 1
    others = Radii(negatives=negatives).others(where)
    twin = others[0] == 1
    for observation in (Radii(negatives=negatives, tolerance=1e-3), MinimalRadii(negatives=negatives, steps=5)):
        radius = observation.run(where)["radius"][0]
        assert (radius[twin] == 0).all()
        assert (radius[~twin] > 0).any()


def test_a_zero_representation_has_no_cosine(pictures) -> None:
    class Relu(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.flatten(1) - 2).relu()

    with pytest.raises(Unsupported, match="divergence = l2"):
        Radii(negatives=K).run(shard(Encoder(Relu(), mean=0, std=1), pictures))


def test_whole_numbers_in_a_network_are_constants(pictures) -> None:
    """They are not taken for the numbers of nodes."""

    class Whole(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1) * 2 + 1

    where = shard(Encoder(Whole(), mean=0, std=1), pictures)
    seen = Drifts(ball=Linf(0.05)).run(where)
    torch.testing.assert_close(seen["high"], torch.full((IMAGES, PIXELS), 0.1).double(), rtol=1e-6, atol=1e-6)


# --- measures ---


@pytest.fixture(scope="module")
def bracketed(pictures, tmp_path_factory) -> tuple[Path, dict]:
    """Return the folder and the record of an audit with all brackets."""
    folder = tmp_path_factory.mktemp("brackets")
    return folder, audit(folder, curved(), pictures, *BRACKETS)


def test_brackets_are_ordered_and_nothing_fails(bracketed) -> None:
    folder, record = bracketed
    assert record["failures"] == []
    entry = record["encoders"][0]
    assert entry["passes"]["bounds"] > 0
    for name, m in entry["measures"].items():
        assert m["error"] is None
        assert m["not_certified"] is None
        table = pq.read_table(folder / m["table"])
        if name == "tightness":
            assert 0 < m["scores"]["tightness"]["value"] <= 1
            continue
        assert m["headline"] == "certificate"
        sides = [torch.tensor(table[side].to_numpy(zero_copy_only=False)) for side in ("attack", "certificate")]
        low, high = sides[::-1] if m["better"] == "higher" else sides
        assert (low.nan_to_num(0) <= high.nan_to_num(0)).all(), name
        assert (low < high).any(), name
        for score in m["scores"].values():
            assert score["low"] <= score["value"] <= score["high"]


def test_measures_of_a_linear_encoder_close_the_bracket(pictures, tmp_path) -> None:
    """For a linear encoder certificates are exact, so a strong attack on the margin itself reaches them."""
    measures = (
        CertifiedRadius(negatives=K, steps=80),
        InstanceAccuracy(ball=Linf(0.08), negatives=K),
        Tightness(ball=Linf(0.08), negatives=K),
    )
    record = audit(tmp_path, linear(), pictures, *measures)
    scores = {name: m["scores"] for name, m in record["encoders"][0]["measures"].items()}
    radius, accuracy = scores["certified_radius"], scores["instance_accuracy"]
    assert math.isclose(radius["attack"]["value"], radius["certificate"]["value"], rel_tol=0.03)
    assert 0 < accuracy["attack"]["value"] < 1
    assert accuracy["attack"]["value"] == accuracy["certificate"]["value"]
    assert scores["tightness"]["tightness"]["value"] > 0.98
    assert scores["tightness"]["vacuous"]["value"] == 0


def test_population_measures_agree_with_brute_force(pictures, tmp_path) -> None:
    encoder = linear()
    ball = Linf(0.06)
    risk, nearest = (
        CertifiedBreakawayRisk(ball=ball, attack=Apgd(8)),
        CertifiedNearestNeighbourAccuracy(ball=ball, attack=Apgd(8)),
    )
    record = audit(tmp_path, encoder, pictures, risk, nearest, images=IMAGES)
    with torch.no_grad():
        clean = encoder(pictures).double()
    ids = pq.read_table(tmp_path / "tables/it/certified_breakaway_risk.parquet")["id"].to_pylist()
    order = torch.tensor([int(name) for name in ids])
    clean = clean[order]
    margin = as_divergence("l2").between(clean, clean.expand(IMAGES, -1, -1))
    lower = margin(clean) - 0.06 * (margin.weights @ matrix(encoder)).abs().sum(-1)
    lower.fill_diagonal_(torch.inf)
    unproved = (lower < 0)[:8]
    assert 0 < unproved.double().mean() < 1
    scores = {name: m["scores"]["certificate"]["value"] for name, m in record["encoders"][0]["measures"].items()}
    assert math.isclose(scores["certified_breakaway_risk"], float(unproved.double().sum() / (8 * (IMAGES - 1))))
    assert math.isclose(scores["certified_nearest_neighbour_accuracy"], float((~unproved.any(1)).double().mean()))


def test_an_ensemble_can_be_the_attack(pictures, tmp_path) -> None:
    attack = Ensemble((Pgd(3), Apgd(3)))
    asked = [replace(m, attack=attack) for m in BRACKETS if isinstance(m, (CertifiedDrift, CertifiedOverlapRisk))]
    assert audit(tmp_path, curved(), pictures, *asked)["failures"] == []


@pytest.mark.slow
def test_only_the_first_images_are_certified(pictures, tmp_path) -> None:
    record = audit(tmp_path, curved(), pictures, *(replace(m, first=6) for m in BRACKETS))
    assert record["failures"] == []
    for name, m in record["encoders"][0]["measures"].items():
        table = pq.read_table(tmp_path / m["table"])
        both_roles = ("certified_breakaway_risk", "certified_drift", "certified_radius", "instance_accuracy")
        assert table.num_rows == (IMAGES if name in both_roles else 6)
        defined = torch.tensor(table[m["column"]].to_numpy(zero_copy_only=False))
        assert int((~defined.isnan()).sum()) == 6, name


@pytest.mark.slow
def test_a_resumed_audit_gives_the_same(bracketed, pictures, tmp_path) -> None:
    folder, first = bracketed
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "cache").rglob("*-0000008.safetensors"):
        path.unlink()  # the second shard of everything that has two, or of the three of the clean images
    again = audit(tmp_path, curved(), pictures, *BRACKETS)
    assert again["run"]["resumed_shards"] > 0
    for name, m in first["encoders"][0]["measures"].items():
        assert again["encoders"][0]["measures"][name]["scores"] == m["scores"]


# --- with labels ---


def with_head(encoder: Encoder, x: torch.Tensor) -> Shard:
    generator = torch.Generator().manual_seed(6)
    head = Head(torch.randn(3, DIM, generator=generator), torch.randn(3, generator=generator), torch.arange(3))
    with torch.no_grad():
        right = (encoder(x) @ head.weights.T + head.bias).argmax(1)
    return replace(shard(encoder, x), labels=right, head=lambda probe: head)


def test_a_linear_head_on_a_linear_encoder_has_the_radius_of_the_closed_form(pictures) -> None:
    encoder = linear()
    where = with_head(encoder, pictures)
    assert where.head is not None
    assert where.labels is not None
    assert where.clean is not None
    margin = where.head(Linear()).margins(where.labels)
    slopes = margin.weights.double() @ matrix(encoder)
    exact = ((margin.weights @ where.clean[..., None])[..., 0] + margin.bias).double() / slopes.abs().sum(-1)
    inside = exact < 0.25
    assert inside.sum() >= 3
    certified = Radii(probe=Linear()).run(where)["radius"]
    torch.testing.assert_close(certified[inside], exact[inside], rtol=1e-4, atol=2e-6)
    found = MinimalRadii(probe=Linear(), steps=80).run(where)["radius"][:, 0]
    least = exact.amin(1)
    assert (found >= certified.amin(1)).all()
    assert (found / certified.amin(1)).max() < 1.05
    assert (least < 0.25).any()
    seen = AttackedPairs(Apgd(30), Linf(0.05), probe=Linear()).run(where)
    lower = Certified(ball=Linf(0.05), probe=Linear()).run(where)["lower"]
    torch.testing.assert_close(seen["margin"].amin(1), lower.amin(1), rtol=1e-3, atol=1e-4)


def test_separate_logits_are_never_tighter_than_margins(pictures) -> None:
    where = with_head(curved(), pictures)
    separate = LogitRadii().run(where)["radius"]
    joint = Radii(probe=Linear()).run(where)["radius"].amin(1)
    assert (separate > 0).any()
    assert (separate <= joint + 1e-5).all()
    assert (separate < 0.95 * joint).any()


@pytest.mark.slow
def test_labels_bracket_accuracy_and_radius(pictures, tmp_path) -> None:
    noise = 0.01 * torch.randn(pictures.shape, generator=torch.Generator().manual_seed(1))
    x = torch.cat([pictures, pictures + noise])
    labels = (x.mean((1, 2, 3)) > x.mean()).long()
    radius, pairs = LinearRadius(steps=20), CertifiedRadius(negatives=K, tolerance=1e-4, steps=20)
    measures = radius, replace(radius, convention="paper"), CertifiedAccuracy(ball=Linf(0.01), attack=Apgd(10)), pairs
    asked = Plan(("it",), "arrays", measures, (RadiusOrder(pairs, radius),), attacked=8, batch_size=4)
    record = run_audit(asked, tmp_path, encoders={"it": curved()}, source=Arrays(x.clamp(0, 1), labels))
    assert record["failures"] == []
    entry = record["encoders"][0]
    assert entry["checks"]["radius_order"]["status"] in ("pass", "warn")
    sound, paper, accuracy, _ = (m["scores"] for m in entry["measures"].values())
    assert paper["certificate"]["value"] <= sound["certificate"]["value"] + 2e-6
    assert sound["certificate"]["value"] < sound["attack"]["value"]
    assert paper["certificate, correct images"]["value"] >= paper["certificate"]["value"]
    assert accuracy["certificate"]["value"] <= accuracy["attack"]["value"] <= sound["clean accuracy"]["value"]


def test_labels_are_asked_for(pictures, tmp_path) -> None:
    with pytest.raises(Missing, match="linear_radius"):
        audit(tmp_path, curved(), pictures, LinearRadius())
    with pytest.raises(Missing, match="radii"):
        Radii(probe=Linear()).run(shard(curved(), pictures))


def test_what_cannot_be_certified_is_said_and_is_no_failure(pictures, tmp_path) -> None:
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.Hardshrink(0.1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x.flatten(1))

    plain = registry.find("measures", "breakaway_risk")(Apgd(8), Linf(0.03))
    record = audit(tmp_path, Encoder(Normed(), mean=0, std=1), pictures, *BRACKETS, plain)
    assert record["failures"] == []
    measures = record["encoders"][0]["measures"]
    assert measures.pop("breakaway_risk")["scores"]
    for m in measures.values():
        assert m["error"] is None
        assert m["not_certified"].startswith("not certified: Hardshrink at")
        assert m["scores"] == {}


def test_a_normalised_encoder_is_certified_by_cosine_only(pictures, tmp_path) -> None:
    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear().module

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.normalize(self.inner(x))

    encoder = Encoder(Normalised(), mean=0, std=1)
    record = audit(tmp_path, encoder, pictures, CertifiedRadius(negatives=K), CertifiedDrift(attack=Apgd(4)))
    radius, drift = record["encoders"][0]["measures"].values()
    assert radius["scores"]["certificate"]["value"] > 0
    assert "normalises the representation" in drift["not_certified"]


def test_a_refuted_certificate_is_an_error_that_names_the_image() -> None:
    proved = torch.tensor([[0.0, 1.0], [0.5, 2.0]]).double()
    in_order(("first", "second"), proved, proved + 0.1, 0.0)
    with pytest.raises(Failed, match="second"):
        in_order(("first", "second"), proved, torch.tensor([[0.0, 1.0], [0.5, 1.8]]).double(), 0.1)


def test_a_certifier_that_promises_too_much_is_caught(pictures, tmp_path, monkeypatch) -> None:
    from holdfast.parts.certifiers.crown import Crown

    honest = Crown.__call__

    def boastful(self, encoder, margin, x, ball, radii=None):
        bound = honest(self, encoder, margin, x, ball, radii)
        return replace(bound, lower=bound.lower + 10)

    monkeypatch.setattr(Crown, "__call__", boastful)
    record = audit(tmp_path, curved(), pictures, BRACKETS[1], BRACKETS[2], BRACKETS[6])
    for m in record["encoders"][0]["measures"].values():
        assert "is refuted" in m["error"]


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (lambda: CertifiedRadius(divergence="l1"), UnknownName, "divergence"),
        (lambda: CertifiedRadius(negatives=0), BadValue, "Radii"),
        (lambda: CertifiedRadius(tolerance=0), BadValue, "radii"),
        (lambda: CertifiedRadius(steps=0), BadValue, "steps >= 1"),
        (lambda: CertifiedRadius(first=0), BadValue, r"certified_radius\.first"),
        (lambda: CertifiedOverlapRisk(first=5), BadValue, "certified_overlap_risk"),
        (lambda: AttackedPairs(negatives=None), Missing, "attacked_pairs"),
        (lambda: CertifiedBreakawayRisk(divergence="linf"), UnknownName, "divergence"),
    ],
)
def test_bad_parameters_are_refused(make, kind: type[HoldfastError], says) -> None:
    with pytest.raises(kind, match=says):
        make()


def test_fewer_images_than_negatives_are_said(pictures, tmp_path) -> None:
    record = audit(tmp_path, curved(), pictures[:4], CertifiedRadius(tolerance=1e-3, steps=5), attacked=4)
    score = record["encoders"][0]["measures"]["certified_radius"]["scores"]["certificate"]
    assert "only 3 other images" in score["note"]


def test_negatives_are_other_images(pictures) -> None:
    where = shard(curved(), pictures)
    others = draw_negatives(where.rng, where.positions, IMAGES, K)
    assert (others != where.positions[:, None]).all()


def test_an_attack_on_pairs_goes_for_the_margin_that_is_certified() -> None:
    for divergence in ("cosine", "l2"):
        measure = InstanceAccuracy(divergence=divergence)
        assert measure.attack_side.objective == PairMargin(divergence)
        assert measure.attack_side.divergence == measure.certificate_side.divergence
    assert AttackedPairs(objective=InstanceContrastive(), divergence="l2").objective == InstanceContrastive()
