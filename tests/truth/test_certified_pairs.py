"""A pair that somebody names, against known answers: closed forms, and the numbers of audits about the same pair."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import holdfast
from holdfast.auditing.plan import Plan
from holdfast.core import Encoder, HoldfastError
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.interval import Interval
from holdfast.parts.measures.certified.certified_radius import CertifiedRadius
from holdfast.parts.measures.certified.instance_accuracy import InstanceAccuracy
from holdfast.parts.measures.smoothed.smoothed_radius import SmoothedRadius
from holdfast.parts.smoothing.pair_probability import PairProbability
from holdfast.parts.threats.linf import Linf
from holdfast.report.pair_sentences import format_change, format_proof, sentences
from holdfast.runtime.errors import Failed, Mismatch
from holdfast.sources.data.arrays import Arrays
from json_records import run_audit

NAMES = ("the image", "the other")


@pytest.fixture
def pair() -> torch.Tensor:
    """Two images in the middle of the pixel range, so that small balls are not clipped."""
    return 0.35 + 0.3 * torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(3))


def linear() -> Encoder:
    generator = torch.Generator().manual_seed(4)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 6, bias=False))
    with torch.no_grad():
        net[1].weight.copy_(torch.randn(6, 16, generator=generator))
    return Encoder(net, mean=0.5, std=0.25, name="linear")


def curved() -> Encoder:
    torch.manual_seed(5)
    net = nn.Sequential(
        nn.Conv2d(1, 3, 2), nn.ReLU(), nn.Conv2d(3, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 12), nn.ReLU(),
        nn.Linear(12, 6),
    )  # fmt: skip
    return Encoder(net, mean=0.5, std=0.25, name="curved")


def certify(encoder: Any, image: Any, against: Any, **asked: Any) -> Any:
    return holdfast.certify(encoder, image, against, quiet=True, **asked)


def closed_form(encoder: Encoder, pair: torch.Tensor) -> float:
    """R of a linear encoder: the margin at the image over the ℓ1 norm of its slope in pixels."""
    with torch.no_grad():
        own, other = encoder(pair).double()
    weight = next(p for p in encoder.parameters() if p.ndim == 2).double().detach()
    row = own / own.norm() - other / other.norm()
    return float(row @ own / (row @ weight / 0.25).abs().sum())


def test_both_ends_meet_in_the_closed_form_of_a_linear_encoder(pair: torch.Tensor) -> None:
    radius = closed_form(linear(), pair)
    assert 0.01 < radius < 0.3
    result = certify(linear(), pair[0], pair[1], draws=0)
    assert result.certificate <= radius <= result.attack
    assert result.certificate == pytest.approx(radius, abs=2e-6)
    assert result.attack == pytest.approx(radius, rel=1e-3)
    below, above = certify(linear(), pair[0], pair[1], eps=[0.99 * radius, 1.02 * radius], draws=0).verdicts.values()
    assert (below, above) == ("certified", "broken")


def test_what_was_found_is_nearer_to_the_other_image_and_as_far_away_as_is_said(pair: torch.Tensor) -> None:
    encoder = curved()
    result = certify(encoder, pair[0], pair[1], draws=0)
    own, other, moved = encoder(torch.stack([*pair, result.images[0]]))
    similarity = nn.functional.cosine_similarity
    assert similarity(moved, other, dim=0) > similarity(moved, own, dim=0)
    assert float((result.images[0] - pair[0]).abs().max()) == pytest.approx(result.attack, abs=1e-7)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_numbers_are_those_of_an_audit_of_the_same_pair(pair: torch.Tensor, tmp_path: Path, seed: int) -> None:
    ball, sampled = Linf(0.01 if seed else 0.05), PairProbability(negatives=1)
    measures = (
        CertifiedRadius(certifier=Crown(), negatives=1, steps=100),
        CertifiedRadius(certifier=Interval(), negatives=1, steps=100),
        InstanceAccuracy(certifier=Crown(), ball=ball, attack=Apgd(30), negatives=1),
        SmoothedRadius(sigma=0.1, certificate=sampled),
    )
    plan = Plan(("it",), "arrays", measures, attacked=2, batch_size=2, seed=seed)
    source = Arrays(pair, ids=NAMES)
    record = run_audit(plan, tmp_path, encoders={"it": curved()}, source=source)
    assert record["failures"] == []
    tables = [pq.read_table(tmp_path / entry["table"]) for entry in record["encoders"][0]["measures"].values()]
    row = tables[0]["id"].to_pylist().index(NAMES[0])
    crown, interval, at, noise = ({k: v[row].as_py() for k, v in zip(t.column_names, t, strict=True)} for t in tables)

    asked = {"certifiers": ["crown", "interval"], "seed": seed}
    one = certify(curved(), pair[0], pair[1], **asked).answer.against[0]
    assert [proof.radius for proof in one.proofs] == [crown["certificate"], interval["certificate"]]
    assert one.attack.radius == crown["attack"]
    smoothing = one.smoothing
    assert (smoothing.radius, smoothing.draws) == (noise["radius"], noise["draws"])
    assert smoothing.probability == noise["probability"]
    verdict = certify(curved(), pair[0], pair[1], eps=ball.radius, **asked).verdicts[ball.radius]
    expected = "certified" if at["certificate"] else "undecided" if at["attack"] else "broken"
    assert verdict == expected


def test_certificates_stand_below_attacks_and_verdicts_agree_with_both(pair: torch.Tensor) -> None:
    result = certify(curved(), pair[0], pair[1], certifiers=("interval", "crown", "alpha_crown"), draws=0)
    interval, crown, alpha = (proof.radius for proof in result.answer.against[0].proofs)
    assert 0 < interval <= crown <= alpha + 1e-6
    assert result.certificate == max(crown, alpha) < result.attack
    middle = (result.certificate + result.attack) / 2
    given = [0.9 * result.certificate, middle, 1.1 * result.attack]
    judged = certify(curved(), pair[0], pair[1], certifiers=("crown", "alpha_crown"), eps=given, draws=0)
    assert list(judged.verdicts.values()) == ["certified", "undecided", "broken"]
    assert judged.certificate == pytest.approx(given[0])


def test_of_several_others_the_least_decides(pair: torch.Tensor) -> None:
    others = torch.stack([pair[1], pair[1].flip(-1), 1 - pair[0]])
    alone = [certify(curved(), pair[0], other, draws=0) for other in others]
    together = certify(curved(), pair[0], others, draws=0)
    assert together.certificate == min(result.certificate for result in alone)
    assert together.attack == min(result.attack for result in alone)
    least = min(range(3), key=lambda k: alone[k].certificate)
    assert together.tightest == f"the other {least}"
    assert f"the other {least} is the tightest" in str(together)


class Stepped(nn.Module):
    """Rounds what it computes: no gradient, and no layer that certifiers read."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).detach().mul(100).round()


@pytest.mark.slow
def test_without_a_gradient_the_search_goes_along_the_way_to_the_other_and_says_so(pair: torch.Tensor) -> None:
    encoder = Encoder(Stepped(linear().module), mean=0.5, std=0.25)
    result = certify(encoder, pair[0], pair[1])
    one = result.answer.against[0]
    assert result.certificate == 0
    assert all(proof.refused for proof in one.proofs)
    assert 0 < result.attack < float((pair[0] - pair[1]).abs().max())
    assert "grad" in one.attack.problem
    assert one.smoothing.radius > 0
    assert "on the way to the other image alone" in str(result)
    # at a given ε a gradient-free search takes over
    assert certify(encoder, pair[0], pair[1], eps=[0.001, 0.9], draws=0).verdicts == {0.001: "undecided", 0.9: "broken"}


def test_what_cannot_be_shown_by_draws_abstains(pair: torch.Tensor) -> None:
    near = torch.stack([pair[0], pair[0] + 1e-4 * (pair[1] - pair[0])])
    result = certify(linear(), near[0], near[1], sigma=1.0)
    smoothing = result.answer.against[0].smoothing
    assert smoothing.radius == 0
    assert abs(smoothing.probability - 0.5) < 0.01
    assert "Abstains about the encoder smoothed with noise of σ 1" in str(result)


def test_the_same_picture_twice_is_refused_and_of_a_list_that_pair_alone(pair: torch.Tensor) -> None:
    with pytest.raises(Mismatch) as error:
        certify(linear(), pair[0], pair[0])
    assert "have the same representation" in str(error.value)
    good, bad = certify(linear(), pair[[0, 1]], [pair[1], pair[1]], draws=0)
    assert good.error == ""
    assert good.certificate > 0
    assert "have the same representation" in bad.error
    with pytest.raises(Failed):
        _ = bad.certificate


@pytest.mark.parametrize(
    ("image", "against", "asked", "words"),
    [
        (0, 1, {"eps": 8}, "did you mean 8/255?"),
        (0, 1, {"eps": "x"}, "eps: expected a finite number"),
        (0, 1, {"norm": "l7"}, "unknown norm 'l7'"),
        (0, 1, {"certifiers": ["crwn"]}, "did you mean 'crown'?"),
        (0, 1, {"divergence": "l1"}, "divergence with a linear margin"),
        (0, [], {}, "against: expected at least one image"),
        ([0, 1], [1], {}, "against: expected what each of 2 images"),
        (0, "wide", {}, "expected 1x4x4 pixels as 'the image' has, got 1x4x5"),
        (0, "text", {}, "no picture 'text'"),
        (0, 3.0, {}, "the other: expected a file, a picture, a tensor"),
    ],
)
def test_bad_input_is_refused_in_a_line(
    pair: torch.Tensor, image: Any, against: Any, asked: dict[str, Any], words: str
) -> None:
    known = {0: pair[0], 1: pair[1], "wide": torch.rand(1, 4, 5)}
    images = [known[k] for k in image] if isinstance(image, list) else known[image]
    others = [known[k] for k in against] if isinstance(against, list) else known.get(against, against)
    with pytest.raises(HoldfastError) as error:
        certify(linear(), images, others, draws=0, **asked)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_proofs_are_rounded_down_and_attacks_up() -> None:
    sizes = torch.rand(500, generator=torch.Generator().manual_seed(1)).double().pow(3).tolist()
    for size in sizes:
        for box in (True, False):
            low, high = (
                float(f(size, box).removesuffix("/255")) / (255 if box else 1) for f in (format_proof, format_change)
            )
            assert low <= size * (1 + 1e-9)
            assert high >= size * (1 - 1e-9)
            assert high - low < 0.011 * size
    assert format_proof(2 / 255, True) == format_change(2 / 255, True) == "2/255"


def test_the_l2_ball_has_its_own_radius(pair: torch.Tensor) -> None:
    result = certify(linear(), pair[0], pair[1], norm="l2", draws=0)
    with torch.no_grad():
        own, other = linear()(pair).double()
    weight = next(p for p in linear().parameters() if p.ndim == 2).double().detach()
    row = own / own.norm() - other / other.norm()
    radius = float(row @ own / (row @ weight / 0.25).norm())
    assert result.certificate <= radius <= result.attack
    assert result.certificate == pytest.approx(radius, abs=2e-6)
    assert "/255" not in sentences(result.answer)[0]


@pytest.mark.slow
def test_real_networks_bracket_the_radius(shared: Path) -> None:
    folder = shared / "data"
    spec = f"{folder}/encoders/mnist_cnn_a_eps0.2.safetensors?mean=0&std=1"
    with np.load(folder / "mnist_test.npz") as held:
        images = held["images"][:3]
    result = certify(spec, images[0], list(images[1:]), certifiers=["crown"])
    for one in result.answer.against:
        # trained with noise of 0.2: far apart, and proved to be
        assert 0.1 < one.low < one.attack.radius < 0.6
        assert one.smoothing.radius > 0.1
