"""Certificates by sampling on encoders whose truth is known, and the draws that they share."""

import dataclasses
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

from holdfast.auditing.plan import Plan
from holdfast.core import Encoder, Head, Passes, Rng, Shard
from holdfast.numerics.geometry.directions import unit
from holdfast.numerics.geometry.negatives import draw_negatives
from holdfast.numerics.statistics import betting
from holdfast.parts.measures.smoothed.smoothed_radius import SmoothedRadius
from holdfast.parts.observations import smoothed
from holdfast.parts.observations.smoothed import Smoothed, block_size, results
from holdfast.parts.probes.linear import Linear
from holdfast.parts.smoothing.center import Center
from holdfast.parts.smoothing.classifier import Classifier
from holdfast.parts.smoothing.pair_probability import PairProbability
from holdfast.parts.smoothing.shared.certificate import Anchor, Certificate
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.runtime.errors import BadValue, NotFinite
from json_records import run_audit

SHAPE, IMAGES = (1, 3, 4), 9
IDS = tuple("abcdefghi")
SMALL: tuple[Certificate, ...] = (
    PairProbability(300, 4),
    PairProbability(256, 3, convention="paper"),
    Classifier(50, 200),
    Classifier(50, 700, bound="betting", precision=1.0),
    Center(0.05, 400, 300, slack=0.1),
    Center(0.05, 400, 300, slack=0.1, convention="tight", ratio=2.0),
)


@pytest.fixture
def weight() -> Tensor:
    return torch.randn(5, 12, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def x() -> Tensor:
    return torch.rand(IMAGES, *SHAPE, generator=torch.Generator().manual_seed(1))


def linear(weight: Tensor) -> Encoder:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    with torch.no_grad():
        layer.weight.copy_(weight)
    return Encoder(nn.Sequential(nn.Flatten(), layer), mean=0, std=1, name="linear")


def observe(encoder: Encoder, x: Tensor, observation: Smoothed, rows=slice(None), seed=0) -> dict[str, Tensor]:
    with torch.no_grad():
        clean = encoder(x)
    encoder.passes = Passes()
    ids = IDS[: len(x)][rows]
    return observation.run(Shard(encoder, x[rows], torch.arange(len(x))[rows], Rng(seed, ids=ids), clean))


# --- what is certified ----------------------------------------------------------------------------


def test_votes_of_a_linear_encoder_have_the_radius_of_a_half_space(weight, x) -> None:
    """ρ⁺ > ρ⁻ is (z⁺ - z⁻) · W x' > 0: R is the distance of x⁺ from that plane, if no bound is too high."""
    encoder, certificate = linear(weight), PairProbability(20_000, 8, temperature=0.0, precision=0.0)
    found = results(observe(encoder, x, Smoothed(0.1, (certificate,))), certificate)
    z = unit(encoder(x).double())
    normal = (z[:, None] - z[found["negatives"]]) @ weight.double()
    truth = (normal @ x.flatten(1).double()[..., None])[..., 0] / normal.norm(dim=-1)
    assert (found["radius"] <= truth.clamp_min(0)).all()  # 72 statements at .999 each
    near = truth < 0.25  # beyond 2½ σ twenty thousand draws see no failures
    assert near.sum() > 10
    torch.testing.assert_close(found["radius"][near], truth[near], rtol=0, atol=0.02)


def test_a_head_on_a_linear_encoder_has_the_radius_of_its_border(weight, x) -> None:
    encoder = linear(weight)
    bias = torch.tensor([0.1, -0.1])
    head = Head(torch.randn(2, 5, generator=torch.Generator().manual_seed(2)), bias, torch.tensor([3, 7]))
    clean = encoder(x).detach()
    random = torch.Generator().manual_seed(3)
    certificate = Classifier(200, 5000)
    for i in range(IMAGES):
        sampling = certificate.sample(Anchor(0.3, i, clean, Rng(0, ids=(IDS[i],)), head))
        want = next(sampling)
        try:
            while True:
                noisy = x[i] + 0.3 * torch.randn(want, *SHAPE, generator=random)
                want = sampling.send(encoder(noisy).detach())
        except StopIteration as done:
            seen = {name: value[None] for name, value in done.value.items()}
        found = certificate.conclude(seen, 0.3)
        logit = (head.weights @ clean[i] + bias).double()
        normal = ((head.weights[0] - head.weights[1]) @ weight).norm()
        border = float((logit[0] - logit[1]).abs() / normal)
        if found["vote"].item() == (3 if logit[0] > logit[1] else 7):
            assert 0.8 * min(border, 0.8) - 0.05 < float(found["radius"]) <= border
        else:  # the first draws may mislead near the border, but then nothing is certified
            assert border < 0.05
            assert found["abstained"].item() == 1


def share_above(x: Tensor, sigma: float, border: float) -> float:
    """P[clip(x_0 + σ z_0) + clip(x_1 + σ z_1) > border], by quadrature: a clipped pixel has atoms at 0 and 1."""
    own, other = x.double()

    def above(least: Tensor) -> Tensor:
        inside = torch.special.ndtr((own - least) / sigma)
        return torch.where(least < 0, 1.0, torch.where(least < 1, inside, 0.0))

    pixel = torch.linspace(0, 1, 100_001, dtype=torch.float64)
    density = (-(((pixel - other) / sigma) ** 2) / 2).exp() / (sigma * math.sqrt(2 * math.pi))
    black, white = torch.special.ndtr(-other / sigma), torch.special.ndtr((other - 1) / sigma)
    atoms = black * above(torch.tensor(border)) + white * above(torch.tensor(border - 1))
    return float(atoms + torch.trapezoid(density * above(border - pixel), pixel))


def certified(x: Tensor, head: Head, sigma: float, clip: bool) -> dict[str, Tensor]:
    """Return what a head of pixels is certified to say of one image under noise."""
    certificate = Classifier(200, 20_000, probe=Linear())
    observation = Smoothed(sigma, (certificate,), clip=clip)
    learned_under = []

    def learn(probe: Linear, threat: Gaussian) -> Head:
        learned_under.append(threat)
        return head

    shard = Shard(Encoder(nn.Flatten(), mean=0, std=1), x, torch.arange(1), Rng(0, ids=("a",)), x.flatten(1))
    found = results(observation.run(dataclasses.replace(shard, head=learn)), certificate)
    assert learned_under == [Gaussian(sigma, clamped=clip)]
    return found


def test_clipping_is_a_part_of_the_model() -> None:
    """x_0 + x_1 > .6 at (.9, .05) under σ .5: a probability of .690 without clipping, of .817 with it."""
    x, sigma, border = torch.tensor([0.9, 0.05]), 0.5, 0.6
    head = Head(torch.tensor([[-1.0, -1.0], [1.0, 1.0]]), torch.tensor([border, -border]), torch.tensor([0, 1]))
    plain = float(torch.special.ndtr((x.double().sum() - border) / (sigma * math.sqrt(2))))
    truth = {False: plain, True: share_above(x, sigma, border)}
    assert truth[True] - truth[False] > 0.12
    for clip, share in truth.items():
        found = certified(x.view(1, 1, 1, 2), head, sigma, clip)
        assert found["vote"].item() == 1
        assert share - 0.015 < found["lower"].item() < share
        assert found["radius"].item() < sigma * float(torch.special.ndtri(torch.tensor(share)))
    # wherever the image moves by less than that, the clipped model still says so more often than not
    angles = torch.linspace(0, 2 * math.pi, 33)
    for angle in angles:
        moved = x + found["radius"].item() * torch.stack([angle.cos(), angle.sin()])
        assert share_above(moved, sigma, border) > 0.5


def test_what_lies_outside_the_pixels_is_never_drawn() -> None:
    """x > 1.1 at .95 under σ .3: every draw is on the border's lower side, where .691 of them are without clipping."""
    x, head = (
        torch.tensor([[[[0.95]]]]),
        Head(torch.tensor([[-1.0], [1.0]]), torch.tensor([1.1, -1.1]), torch.arange(2)),
    )
    assert certified(x, head, 0.3, clip=True)["lower"].item() == pytest.approx(0.001 ** (1 / 20_000), abs=1e-9)
    assert certified(x, head, 0.3, clip=False)["lower"].item() == pytest.approx(0.691, abs=0.02)


def test_center_smoothing_bounds_a_linear_encoder(weight, x) -> None:
    """The smoothed linear encoder moves by at most ε_in σ_max(W); unit vectors of draws move along."""
    encoder, certificate = linear(weight), Center(0.1, 2000, 3000)
    turned = dataclasses.replace(certificate, normalised=True)
    seen = observe(encoder, x, Smoothed(0.2, (certificate, turned)))
    found = results(seen, certificate)
    moved = 0.1 * float(torch.linalg.matrix_norm(weight, 2))
    kept = found["abstained"] == 0
    assert kept.any()
    assert (found["radius"][kept] >= moved).all()
    assert found["radius"][~kept].isnan().all()
    angles = results(seen, turned)["radius"]
    assert (angles[~angles.isnan()] <= 6).all()  # three times the diameter of the sphere
    noise = 3 * 0.2 * weight.norm()  # R is about the median length of W z
    assert (found["radius"][kept] < 2 * noise).all()


@pytest.mark.parametrize(("convention", "factor"), [("paper", 3), ("tight", 2.25)])
def test_center_multiplies_by_one_plus_the_ratio(convention, factor) -> None:
    seen = {"spread": torch.tensor([2.0, math.nan]).double(), "draws": torch.tensor([1, 1])}
    found = Center(convention=convention, ratio=1.25).conclude(seen, 0.25)
    assert found["radius"][0].item() == 2 * factor
    assert found["abstained"].tolist() == [0, 1]


def test_center_check_number() -> None:
    assert Center(0.25, distances=10_000).quantile(0.25) == pytest.approx(0.8861, abs=5e-5)


@pytest.mark.parametrize("draws", [1, 1000, 1198])
def test_center_refuses_what_always_abstains(draws) -> None:
    with pytest.raises(BadValue, match="1199"):
        Center(draws=draws)
    assert Center(draws=1199).budget == 2 * 1199 + 10_000


def test_center_refuses_a_radius_that_is_too_large_for_sigma() -> None:
    with pytest.raises(BadValue, match="distances=") as told:
        Smoothed(0.1, (Center(0.15, distances=500),))
    enough = int(str(told.value).split("distances=")[1].split(",")[0])
    Smoothed(0.1, (Center(0.15, distances=enough),))
    with pytest.raises(BadValue, match="center"):
        Smoothed(0.1, (Center(0.15, distances=enough - 1),))
    with pytest.raises(BadValue, match="radius"):
        Smoothed(0.1, (Center(1.0),))


def test_a_twin_is_never_certified_and_does_not_hold_up_the_others(weight, x) -> None:
    x[4] = x[0]
    for temperature in (0.0, 0.1):
        certificate = PairProbability(2000, IMAGES - 1, temperature)
        found = results(observe(linear(weight), x, Smoothed(0.02, (certificate,))), certificate)
        twin = found["negatives"][0] == 4
        assert found["mean"][0, twin].item() == 0.5
        assert found["radius"][0, twin].item() == 0
        assert (found["radius"][0, ~twin] > 0).all()
        assert found["draws"][0] < 1500


def test_a_zero_representation_is_nobody_and_certifies_nothing(x) -> None:
    encoder = linear(torch.zeros(5, 12))
    certificates = (PairProbability(300, 4), PairProbability(300, 4, temperature=0.0), Classifier(10, 50))
    seen = observe(encoder, x, Smoothed(0.1, certificates))
    for certificate in certificates[:2]:
        found = results(seen, certificate)
        assert (found["mean"] == 0.5).all()
        assert (found["radius"] == 0).all()
    assert torch.equal(results(seen, certificates[2])["vote"], torch.arange(IMAGES))  # ties go to the image itself


def test_the_papers_convention_is_the_plain_mean(weight, x) -> None:
    encoder, certificate = linear(weight), PairProbability(256, 4, convention="paper")
    found = results(observe(encoder, x, Smoothed(0.1, (certificate,))), certificate)
    noisy = next(Gaussian(0.1, clamped=False).draws(x[2:3], Rng(0, ids=("c",)), block_size(x)))(0)[:256]
    with torch.no_grad():
        clean, reps = unit(encoder(x)), unit(encoder(noisy))
    own, other = reps @ clean[2], reps @ clean[found["negatives"][2]].T
    plain = (1 / (1 + ((other - own[:, None]) / 0.1).exp())).double().mean(0)
    torch.testing.assert_close(found["mean"][2], plain, rtol=1e-5, atol=1e-7)
    expected = 0.1 * torch.special.ndtri(plain)
    torch.testing.assert_close(found["radius"][2], expected, rtol=1e-4, atol=1e-6)
    assert (found["draws"] == 256).all()
    sound = PairProbability(256, 4)
    bound = results(observe(encoder, x, Smoothed(0.1, (sound,))), sound)["radius"]
    assert (bound <= found["radius"].clamp_min(0)).all()


def test_in_the_papers_convention_a_mean_below_a_half_is_a_negative_radius() -> None:
    certificate = PairProbability(256, 2, convention="paper")
    counts = torch.stack([256 * betting.tally(torch.full((1, 1), p).double())[0] for p in (0.3, 0.9, 0.0, 1.0)])
    samples = {"counts": counts[None], "negatives": torch.tensor([[1, 2, 3, 4]]), "draws": torch.tensor([256])}
    found = certificate.conclude(samples, 0.1)["radius"][0].tolist()
    assert found[:2] == pytest.approx([-0.0524401, 0.1281552], abs=1e-6)
    assert found[2] == pytest.approx(-found[3])
    assert 0.8 < found[3] < 0.9  # what float64 rounds to 1 is taken as 1 - 2⁻⁵³
    assert PairProbability(256, 2).conclude(samples, 0.1)["radius"][0, 0] == 0


# --- draws ----------------------------------------------------------------------------------------


def same(a: dict[str, Tensor], b: dict[str, Tensor], rows=slice(None)) -> None:
    for name in b:
        torch.testing.assert_close(a[name][rows], b[name], rtol=1e-5, atol=1e-6, equal_nan=True)


def test_results_depend_on_neither_shard_nor_order_nor_company(weight, x, monkeypatch) -> None:
    encoder = linear(weight)
    whole = observe(encoder, x, Smoothed(0.1, SMALL))
    for rows in (slice(0, 4), slice(4, 9), slice(6, 7)):
        same(whole, observe(encoder, x, Smoothed(0.1, SMALL), rows), rows)
    for certificate in SMALL:
        alone = Smoothed(0.1, (certificate,))
        same(whole, observe(encoder, x, alone))
        assert encoder.passes.total <= alone.passes.total * IMAGES
    other = observe(encoder, x, Smoothed(0.1, SMALL), seed=1)
    assert not torch.equal(other[f"{SMALL[0]}.lower"], whole[f"{SMALL[0]}.lower"])
    monkeypatch.setattr(smoothed, "TOGETHER", 2)
    same(whole, observe(encoder, x, Smoothed(0.1, SMALL)))
    order = torch.tensor([3, 0, 8])
    shard = Shard(encoder, x[order], order, Rng(0, ids=("d", "a", "i")), encoder(x).detach())
    same(whole, Smoothed(0.1, SMALL).run(shard), order)


def test_certificates_of_one_sigma_share_one_stream(weight, x) -> None:
    parts = [Smoothed(0.1, (certificate,)) for certificate in SMALL]
    assert len({part.key() for part in parts}) == 1
    assert Smoothed(0.2, SMALL).key() != parts[0].key()
    joined = parts[0]
    for part in parts:
        joined = joined.join(part)
    assert joined == Smoothed(0.1, SMALL)
    assert joined.passes == Passes(forward=1100)
    encoder = linear(weight)
    observe(encoder, x, joined)
    assert 0 < encoder.passes.forward <= 1100 * IMAGES
    assert Smoothed(0.1, SMALL, 3).join(Smoothed(0.1, SMALL, 5)).first == 5
    assert Smoothed(0.1, SMALL, 3).join(Smoothed(0.1, SMALL)).first is None


@dataclasses.dataclass(frozen=True)
class Recorder(Certificate):
    """Keeps every draw that it is given, in portions of its choice."""

    portions: tuple[int, ...]

    @property
    def budget(self) -> int:
        return sum(self.portions)

    def check(self, sigma: float) -> None:
        assert sigma > 0

    def sample(self, anchor: Anchor):
        kept: list[Tensor] = []
        for portion in self.portions:
            while portion:
                reps = yield portion
                assert 1 <= len(reps) <= portion
                portion -= len(reps)
                kept.append(reps.clone())
        return {"reps": torch.cat(kept)}

    def conclude(self, seen: dict[str, Tensor], sigma: float) -> dict[str, Tensor]:
        return seen


def test_every_draw_is_given_once_and_in_order(weight, x) -> None:
    """So what chooses a class or a centre is never what tests it."""
    encoder, recorders = linear(weight), (Recorder((100, 1, 499)), Recorder((300, 50)))
    seen = observe(encoder, x, Smoothed(0.1, recorders), slice(0, 2))
    assert encoder.passes == Passes(forward=2 * 600)
    for i in range(2):
        stream = Gaussian(0.1, clamped=False).draws(x[i : i + 1], Rng(0, ids=(IDS[i],)), block_size(x))
        expected = torch.cat([encoder(next(stream)(0)) for _ in range(3)]).detach()
        for recorder in recorders:
            torch.testing.assert_close(results(seen, recorder)["reps"][i], expected[: recorder.budget])


@pytest.mark.parametrize(("gap", "lost"), [(0.0, "none"), (0.8, "some"), (4.0, "none")])
def test_a_draw_is_of_the_image_that_it_is_nearest_to(gap: float, lost: str) -> None:
    """Others a gap away: twins, to whom no tie is lost; some that draws come half way to; some that none reaches."""
    random = torch.Generator().manual_seed(7)
    clean = torch.nn.functional.normalize(torch.randn(30, 4, generator=random), dim=1) * gap
    clean[11] = 0
    draws = torch.randn(400, 4, generator=random) * 0.25
    own = torch.cdist(draws.double(), clean.double(), compute_mode="donot_use_mm_for_euclid_dist")
    hits = int((own.amin(1) == own[:, 11]).sum())
    sampling = Classifier(1, 400).sample(Anchor(0.1, 11, clean, Rng(0, ids=("a",))))
    next(sampling)
    sampling.send(clean[[11]])
    with pytest.raises(StopIteration) as done:
        sampling.send(draws)
    assert {name: int(value) for name, value in done.value.value.items()} == {"vote": 11, "hits": hits, "draws": 400}
    assert 100 < hits < 300 if lost == "some" else hits == 400


def test_drawing_stops_when_everything_is_settled(weight, x) -> None:
    """Little noise: every vote agrees, so a few draws tell all that a coarse radius needs; else all are drawn."""
    encoder = linear(weight)
    for certificate, early in (
        (PairProbability(5000, 4, precision=1.5), True),
        (PairProbability(1000, 4, precision=0), False),
    ):
        found = results(observe(encoder, x, Smoothed(0.1, (certificate,))), certificate)
        assert encoder.passes.forward == int(found["draws"].sum())
        assert bool((found["draws"] < certificate.draws).all()) == early


def test_noise_is_gaussian_and_not_clamped() -> None:
    x = torch.rand(3, 5, 5, generator=torch.Generator().manual_seed(0))
    stream = Gaussian(0.5, clamped=False).draws(x[None], Rng(0, ids=("a",)), 4000)
    first, second = next(stream)(0).clone(), next(stream)(0).clone()
    for block in (first, second):
        z = (block - x) / 0.5
        assert z.mean().abs() < 5 / math.sqrt(z.numel())
        assert float(z.square().mean()) == pytest.approx(1, abs=0.02)
        assert float((z.abs() < 1).double().mean()) == pytest.approx(0.6827, abs=0.01)
        correlation = torch.corrcoef(z.flatten(1).T) - torch.eye(75)
        assert correlation.abs().max() < 0.1
        assert block.min() < 0
        assert block.max() > 1
    assert abs(float(((first - x) * (second - x)).mean())) < 0.01
    inside = Gaussian(0.5).sample(x[None], Rng(0, ids=("a",)))
    assert inside.min() >= 0
    assert inside.max() <= 1


def test_the_memory_format_changes_no_number() -> None:
    x = torch.rand(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    last, rng = x.contiguous(memory_format=torch.channels_last), Rng(0, ids=("a", "b"))
    usual, other = (next(Gaussian(0.1, clamped=False).draws(images, rng, 10))(1) for images in (x, last))
    assert torch.equal(usual, other)
    assert usual.is_contiguous()
    assert other.is_contiguous(memory_format=torch.channels_last)


def test_noise_depends_on_seed_image_and_sigma() -> None:
    x = torch.zeros(1, 1, 4, 4)

    def draw(sigma: float, seed: int, image: str) -> Tensor:
        return next(Gaussian(sigma, clamped=False).draws(x, Rng(seed, ids=(image,)), 5))(0) / sigma

    usual = draw(0.1, 0, "a")
    assert torch.equal(usual, draw(0.1, 0, "a"))
    for other in (draw(0.1, 1, "a"), draw(0.1, 0, "b"), draw(0.2, 0, "a")):
        assert not torch.allclose(usual, other)


def test_images_share_numbers_but_not_their_noise() -> None:
    """Alone or in company an image has the same draws; those of two images are equal in size and uncorrelated."""
    x, ids = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0)), ("a", "b", "c")
    around = next(Gaussian(0.5, clamped=False).draws(x, Rng(0, ids=ids), 500))
    noise = [around(i).clone() - x[i] for i in range(3)]
    for i in range(3):
        alone = next(Gaussian(0.5, clamped=False).draws(x[i : i + 1], Rng(0, ids=ids[i : i + 1]), 500))
        assert torch.equal(alone(0) - x[i], noise[i])
    torch.testing.assert_close(noise[0].abs(), noise[1].abs())
    for i, j in ((0, 1), (0, 2), (1, 2)):
        agree = (noise[i][0] * noise[j][0] > 0).double().mean()  # of 64 signs
        assert 0.2 < agree < 0.8
        assert (noise[i] * noise[j]).mean().abs() < 0.15 * 0.25


def test_errors_of_two_images_are_uncorrelated() -> None:
    """With the same signs, p̲ of two images would be too high together, and intervals over images too narrow."""
    weight = torch.randn(16, generator=torch.Generator().manual_seed(0))
    x = torch.zeros(2, 1, 4, 4)
    shares = []
    for seed in range(300):
        around = next(Gaussian(0.5, clamped=False).draws(x, Rng(seed, ids=("a", "b")), 100))
        shares.append([float(((around(i).flatten(1) @ weight) > 0.3).double().mean()) for i in range(2)])
    assert abs(float(torch.corrcoef(torch.tensor(shares).T)[0, 1])) < 4 / math.sqrt(300)


def test_blocks_fit_the_image() -> None:
    assert block_size(torch.zeros(1, 1, 8, 8)) == 256
    assert 8 <= block_size(torch.zeros(1, 3, 224, 224)) < 64


def test_negatives_are_others_each_once() -> None:
    positions = torch.tensor([0, 3, 7])
    drawn = draw_negatives(Rng(0, ids=("a", "b", "c")), positions, 8, 7)
    for own, others in zip(positions.tolist(), drawn.tolist(), strict=True):
        assert sorted([own, *others]) == list(range(8))
    few = draw_negatives(Rng(0, ids=("b",)), positions[1:2], 8, 2)
    assert torch.equal(few[0], drawn[1, :2])
    for count in (0, 8):
        with pytest.raises(BadValue, match="negatives"):
            draw_negatives(Rng(0, ids=("a",)), positions[:1], 8, count)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.0, -0.1, math.nan, math.inf])
def test_impossible_sigmas_are_refused(sigma) -> None:
    for make in (Gaussian, Smoothed):
        with pytest.raises(BadValue, match="sigma"):
            make(sigma)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PairProbability(draws=5), r"0\.001"),
        (lambda: PairProbability(draws=0), "draw"),
        (lambda: PairProbability(negatives=0), "draw"),
        (lambda: PairProbability(temperature=-1.0), "temperature"),
        (lambda: PairProbability(alpha=0.0), "alpha"),
        (lambda: PairProbability(convention="rough"), "'sound'"),
        (lambda: PairProbability(convention="paper", temperature=0.0), "infinite"),
        (lambda: Classifier(draws=9), "take 10"),
        (lambda: Classifier(draws=10, bound="betting"), "classifier"),
        (lambda: Classifier(selection=0), "selection"),
        (lambda: Classifier(bound="hoeffding"), "'clopper_pearson' or 'betting'"),
        (lambda: Classifier(alpha=math.nan), "alpha"),
        (lambda: Center(radius=0.0), "radius"),
        (lambda: Center(slack=0.5), "slack"),
        (lambda: Center(convention="loose"), "'tight'"),
        (lambda: Center(ratio=2.5), "ratio"),
        (lambda: Center(distances=0), "center"),
        (lambda: Center(alpha_centre=1.0), "alpha_centre"),
        (lambda: Smoothed(first=0), r"smoothed\.first"),
    ],
)
def test_bad_parameters_are_refused(make, words) -> None:
    with pytest.raises(BadValue, match=words):
        make()


def test_a_paper_estimate_may_have_few_draws() -> None:
    assert PairProbability(draws=5, convention="paper").budget == 5


def test_nan_under_noise_is_an_error(x) -> None:
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1).sqrt()  # of a negative pixel: NaN

    with pytest.raises(NotFinite, match="clip=true"):
        observe(Encoder(Root(), mean=0, std=1), x, Smoothed(0.5, (PairProbability(300, 4),)))


def test_in_the_papers_convention_the_measure_keeps_negative_radii_and_tells_the_probability(tmp_path: Path) -> None:
    estimate = PairProbability(64, 4, convention="paper")
    measures = SmoothedRadius(0.6, estimate), SmoothedRadius(0.6, PairProbability(64, 4))
    record = run_audit(Plan(("zoo:digits-simclr",), "digits", measures, images=60, attacked=30), tmp_path)
    assert record["failures"] == []
    paper, sound = record["encoders"][0]["measures"].values()
    table = pq.read_table(tmp_path / paper["table"]).to_pandas().dropna(subset=["radius"])
    assert len(table) == 30
    assert table["least"].min() < 0
    assert ((table["probability"] > 0) & (table["probability"] < 1)).all()
    value = {name: score["value"] for name, score in paper["scores"].items()}
    assert value["images with estimated radius"] == pytest.approx((table["radius"] > 0).mean())
    assert value["probability, mean"] == pytest.approx(table["probability"].mean())
    assert value["estimated radius, mean"] == pytest.approx(table["radius"].mean())
    assert "counted with its negative number" in paper["scores"]["estimated radius, mean"]["note"]
    certified = pq.read_table(tmp_path / sound["table"]).to_pandas().dropna(subset=["radius"])
    assert certified["radius"].min() >= 0
    assert not [name for name in sound["scores"] if "probability" in name or "images" in name]
