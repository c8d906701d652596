"""Every certifier x every ball: shapes, independence, closed forms, honest errors; no attack beats a certificate."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from holdfast.core import Attack, Ball, Bound, Certifier, Encoder, HoldfastError, Margin, Rng, registry
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.certifiers.beta_crown import BetaCrown
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.patch import Patch
from holdfast.runtime.errors import NotCertified

IDS = tuple("abcdefgh")
NAMES = registry.names("certifiers")
BALLS: list[Ball] = [Linf(0.04), L2(0.25), Patch(0.5, share=0.1), Patch(0.3, share=0.1, place="top-right")]
BOTH = [*(pytest.param(name, ball, id=f"{name}-{type(ball).__name__}") for name in NAMES for ball in BALLS)]


def make(name: str) -> Certifier:
    """The certifier with a small budget."""
    small = {
        "alpha_crown": {"inside": 1, "steps": 4},
        "beta_crown": {"splits": 2, "until": "tight", "inside": 1, "steps": 2, "leaf_steps": 1},
    }
    return registry.find("certifiers", name)(**small.get(name, {}))


@pytest.fixture(scope="module")
def tiny(small_network: Callable[[], Encoder]) -> Encoder:
    """The same for all tests here, for it is traced once."""
    return small_network()


def margins(dim: int, count: int = 8, rows: int = 3, seed: int = 0) -> Margin:
    generator = torch.Generator().manual_seed(seed)
    return Margin(torch.randn(count, rows, dim, generator=generator), torch.randn(count, rows, generator=generator))


def some(margin: Margin, index: list[int] | slice) -> Margin:
    return Margin(margin.weights[index], margin.bias[index])


def linear(dim: int = 5, seed: int = 0) -> tuple[Encoder, Tensor, Tensor]:
    """An encoder f(x) = A x + b of 1x2x3 images, and A and b in float64, its normalisation included."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layer = nn.Linear(6, dim)
    encoder = Encoder(nn.Sequential(nn.Flatten(), layer), mean=0.25, std=0.5)
    matrix = layer.weight.detach().double() / 0.5
    return encoder, matrix, layer.bias.detach().double() - matrix.sum(1) * 0.25


@pytest.mark.parametrize(("name", "ball"), BOTH)
def test_bounds_have_one_number_per_row_and_no_attack_is_below(name, ball, tiny, edges) -> None:
    margin, x = margins(12, count=4, rows=2), edges[:4]
    bound = make(name)(tiny, margin, x, ball)
    assert isinstance(bound, Bound)
    assert bound.lower.shape == bound.slack.shape == bound.vacuous.shape == (4, 2)
    assert bound.confidence == 1
    assert bound.about == "the encoder"
    assert bool((bound.slack >= 0).all())
    with torch.no_grad():
        assert bool((bound.lower <= margin(tiny(x)) + 1e-5).all())
    assert bool(torch.isfinite(bound.lower[~bound.vacuous]).all())


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("name", "ball"), BOTH)
def test_same_bound_twice_in_any_batch_and_with_any_other_rows(name, ball, tiny, edges) -> None:
    certifier, margin, x = make(name), margins(12, count=4, rows=2), edges[:4]
    whole = certifier(tiny, margin, x, ball).lower
    assert torch.equal(whole, certifier(tiny, margin, x, ball).lower)
    order = [3, 1]
    part = certifier(tiny, some(margin, order), x[order], ball).lower
    torch.testing.assert_close(part, whole[order], rtol=1e-4, atol=1e-4)
    alone = Margin(margin.weights[:, [1]], margin.bias[:, [1]])
    torch.testing.assert_close(certifier(tiny, alone, x, ball).lower[:, 0], whole[:, 1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ball", [Linf(0.1), pytest.param(L2(0.8), marks=pytest.mark.slow)], ids=["linf", "l2"])
def test_splits_of_a_row_do_not_depend_on_the_other_rows_of_its_image(ball: Ball) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        layers = nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 12)
        encoder = Encoder(nn.Sequential(nn.Flatten(), *layers), mean=0.5, std=0.5)
    margin, x = margins(12, count=4, rows=2), torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    certifier = BetaCrown(splits=8, until="tight", steps=8, leaf_steps=3)
    whole = certifier(encoder, margin, x, ball).lower
    for row in (0, 1):
        alone = Margin(margin.weights[:, [row]], margin.bias[:, [row]])
        torch.testing.assert_close(certifier(encoder, alone, x, ball).lower[:, 0], whole[:, row], rtol=1e-4, atol=1e-4)
    assert bool((whole > Crown()(encoder, margin, x, ball).lower + 1e-3).any())  # splits have done something


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("name", "ball"), BOTH)
def test_radii_of_images_replace_the_ball_s(name, ball, tiny, edges) -> None:
    certifier, margin, other, x = (
        make(name),
        margins(12, count=4, rows=1),
        replace(ball, radius=ball.radius / 2),
        edges[1:5],
    )
    halves = torch.full((4,), ball.radius / 2)
    halves[2:] = ball.radius
    mixed = certifier(tiny, margin, x, ball, halves).lower
    torch.testing.assert_close(mixed[:2], certifier(tiny, margin, x, other).lower[:2], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(mixed[2:], certifier(tiny, margin, x, ball).lower[2:], rtol=1e-4, atol=1e-4)
    point = certifier(tiny, margin, x, ball, torch.zeros(4))
    with torch.no_grad():
        torch.testing.assert_close(point.lower.float(), margin(tiny(x)), rtol=1e-5, atol=1e-5)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_linear_encoders_in_closed_form(name: str, seed: int) -> None:
    """m(x) - ε ‖Wᵀw‖ of the dual norm, where no pixel reaches an edge."""
    encoder, matrix, shift = linear(seed=seed)
    x, margin = torch.rand(8, 1, 2, 3) * 0.4 + 0.3, margins(5, seed=seed)
    slopes = margin.weights.double() @ matrix
    clean = (slopes @ x.flatten(1).double()[..., None]).squeeze(-1) + margin.weights.double() @ shift + margin.bias
    for ball, reach in ((Linf(0.2), slopes.abs().sum(-1)), (L2(0.2), slopes.norm(dim=-1))):
        bound = make(name)(encoder, margin, x, ball)
        torch.testing.assert_close(bound.lower, clean - 0.2 * reach, rtol=1e-6, atol=1e-6)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("radius", [0.1, 0.5, 1.2])
def test_linear_encoders_clipped_to_the_pixel_box(name: str, radius: float, edges: Tensor) -> None:
    """Against the minimum over ball and box: pixel by pixel for ℓ∞, by sequential programming for ℓ2."""
    encoder, matrix, shift = linear()
    x, margin = edges[:, :, :2, :3], margins(5)
    slopes = margin.weights.double() @ matrix
    constant = margin.weights.double() @ shift + margin.bias
    flat = x.flatten(1).double()
    if radius <= 1:
        low, high = (flat - radius).clamp_min(0)[:, None], (flat + radius).clamp_max(1)[:, None]
        least = torch.where(slopes > 0, slopes * low, slopes * high).sum(-1) + constant
        torch.testing.assert_close(make(name)(encoder, margin, x, Linf(radius)).lower, least, rtol=1e-6, atol=1e-6)
    bound = make(name)(encoder, margin, x, L2(radius)).lower
    if radius not in MINIMA:
        MINIMA[radius] = least_in_ball_and_box(slopes, flat, radius)
    least = MINIMA[radius] + constant
    assert bool((bound <= least + 1e-5).all())
    assert bool((bound >= least - 0.02 * radius * slopes.norm(dim=-1)).all())


MINIMA: dict[float, Tensor] = {}
"""By radius: the same for all certifiers."""


def least_in_ball_and_box(slopes: Tensor, centres: Tensor, radius: float) -> Tensor:
    """Return the least product of each row of slopes with an image of the ball and the pixel box."""
    least = torch.empty(slopes.shape[:2], dtype=torch.float64)
    for i, rows in enumerate(slopes):
        start = centres[i].numpy()
        ball = {"type": "ineq", "fun": lambda z, c=start: radius**2 - (z - c) @ (z - c)}
        for row, slope in enumerate(rows.numpy()):
            found = minimize(
                lambda z, s=slope: s @ z,
                np.clip(start, 0.01, 0.99),
                jac=lambda z, s=slope: s,
                bounds=[(0, 1)] * 6,
                constraints=[ball],
                method="SLSQP",
                options={"ftol": 1e-12, "maxiter": 300},
            )
            least[i, row] = float(found.fun)
    return least


def attacks() -> list[Attack]:
    small = {name: {"steps": 20} for name in ("pgd", "bim", "apgd", "minimum_norm", "carlini_wagner")}
    small |= {"square": {"steps": 100}}
    names = [name for name in registry.names("attacks") if name != "ensemble"]
    return [*(registry.find("attacks", name)(**small.get(name, {})) for name in names), Ensemble((Pgd(10), Square(20)))]


LOWERS: dict[Ball, dict[str, Tensor]] = {}
"""What every certifier says of one margin per image of `edges`, in every ball: computed once for all attacks."""


@pytest.mark.sweep(3)
@pytest.mark.parametrize("attack", attacks(), ids=lambda attack: type(attack).__name__)
@pytest.mark.parametrize("ball", BALLS, ids=lambda b: type(b).__name__)
def test_no_attack_beats_a_certificate(attack: Attack, ball: Ball, tiny: Encoder, edges: Tensor) -> None:
    margin = margins(12, rows=1)
    if ball not in LOWERS:
        LOWERS[ball] = {name: make(name)(tiny, margin, edges, ball).lower[:, 0] for name in NAMES}

    def goal(x: Tensor) -> tuple[Tensor, Tensor]:
        reps = tiny(x)
        return -margin(reps)[:, 0], reps

    found = attack(goal, edges, ball, Rng(0, ids=IDS))
    with torch.no_grad():
        reached = margin(tiny(found.images[attack.steps]))[:, 0]
    for name, lower in LOWERS[ball].items():
        assert bool((lower <= reached + 1e-5).all()), f"{name} is beaten by {(lower - reached).max()}"


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("name", "ball"), BOTH)
def test_vacuous_bounds_say_so(name, ball, tiny, edges) -> None:
    """On the whole pixel box a bound is no better than that of the box; on a tiny ball, or in one window, it is."""
    certifier, margin = make(name), margins(12)
    small = certifier(tiny, margin, edges, ball, torch.full((8,), 1e-3))
    assert not bool(small.vacuous.any())
    radii = torch.full((8,), 8.0)
    whole = registry.find("certifiers", "interval")()(tiny, margin, edges, ball, radii)
    low, high = ball.box(edges, radii)
    assert bool(whole.vacuous.all()) == (bool((low == 0).all()) and bool((high == 1).all()))


def test_weights_that_change_are_seen(edges: Tensor) -> None:
    """A proof about weights that are no longer there would be false."""
    layer = nn.Linear(64, 4)
    encoder, margin = Encoder(nn.Sequential(nn.Flatten(), layer), mean=0, std=1), margins(4)

    def wrong() -> float:
        lower = registry.find("certifiers", "crown")()(encoder, margin, edges, Linf(0.01), torch.zeros(8)).lower
        with torch.no_grad():
            return float((lower - margin(encoder(edges))).abs().max())

    assert wrong() < 1e-4
    with torch.no_grad():
        layer.weight.mul_(2)
    assert wrong() < 1e-4
    layer.weight.data *= -1
    assert wrong() < 1e-4
    layer.weight = nn.Parameter(torch.randn(4, 64), requires_grad=False)
    assert wrong() < 1e-4


def test_layers_that_change_are_seen(edges: Tensor) -> None:
    bend = nn.LeakyReLU(0.1)
    encoder, margin = Encoder(nn.Sequential(nn.Flatten(), nn.Linear(64, 4), bend), mean=0, std=1), margins(4)
    for bend.negative_slope in (0.1, 0.9):
        lower = registry.find("certifiers", "crown")()(encoder, margin, edges, Linf(0.01), torch.zeros(8)).lower
        torch.testing.assert_close(lower, margin(encoder(edges)), rtol=0, atol=1e-4, check_dtype=False)


class Clamped(nn.Module):
    """A clamp that BatchNorm's output does not reach on noise, but does on white images."""

    def __init__(self):
        super().__init__()
        self.sum = nn.Conv2d(1, 1, 3, bias=False)
        nn.init.ones_(self.sum.weight)
        self.norm = nn.BatchNorm2d(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.sum(x)).clamp(max=8.5).flatten(1)


def test_a_clamp_behind_a_batch_norm_is_kept() -> None:
    encoder, white = Encoder(Clamped().eval(), mean=0, std=1), torch.ones(1, 1, 3, 3)
    bound = registry.find("certifiers", "crown")()(
        encoder, Margin(torch.ones(1, 1, 1), torch.zeros(1, 1)), white, Linf(1e-9)
    )
    assert float(bound.lower) == pytest.approx(8.5, rel=1e-6)


class Jumps(nn.Module):
    """A network with a function that jumps, in a place that has a name."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 8)
        self.shrink = nn.Hardshrink()

    def forward(self, x: Tensor) -> Tensor:
        return self.shrink(self.embed(x.flatten(1, 2))).mean(1)


class Branches(nn.Module):
    """A network that cannot be traced."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) * (2 if float(x.sum()) > 0 else 1)


class Reads(nn.Module):
    """A size in a tensor, which torch.export calls "tensor subclasses" when it is read."""

    def __init__(self):
        super().__init__()
        self.count = nn.Buffer(torch.tensor(5))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)[:, : int(self.count.numpy())]


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_certified_is_refused_with_its_name(
    name: str, tiny: Encoder, edges: Tensor, capfd: pytest.CaptureFixture[str]
) -> None:
    certifier, ball = make(name), BALLS[0]

    def refused(encoder: Encoder, x: Tensor = edges, margin: Margin | None = None, radii: Tensor | None = None) -> str:
        with pytest.raises(HoldfastError) as caught:
            certifier(encoder, margins(12) if margin is None else margin, x, ball, radii)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "Hardshrink at shrink" in refused(Encoder(Jumps(), mean=0, std=1), margin=margins(8))
    for module, width in ((Branches(), 64), (Reads(), 5)):
        said = refused(Encoder(nn.Sequential(nn.Identity(), module), mean=0, std=1), margin=margins(width))
        assert f"not certified: {type(module).__name__} at 1 of encoder" in said
        assert "depends on the values of tensors" in said
        assert "an earlier layer (?layer=)" in said
    assert capfd.readouterr() == ("", "")  # torch.export would print whole graphs
    rgb = Encoder(tiny.module, mean=[0.5] * 3, std=[0.5] * 3)
    assert "3 means and stds" in refused(rgb)
    broken = nn.Linear(64, 12)
    broken.weight.data[0, 0] = torch.nan
    assert "NaN" in refused(Encoder(nn.Sequential(nn.Flatten(), broken), mean=0, std=1))
    assert "expected" in refused(tiny, margin=margins(11))
    assert "expected" in refused(tiny, margin=margins(12, count=7))
    weightless = margins(12)
    weightless.weights[0, 0, 0] = torch.inf
    assert "NaN or infinite" in refused(tiny, margin=weightless)
    assert "pixels" in refused(tiny, x=edges * torch.nan)
    assert "pixels" in refused(tiny, x=edges + 1)
    assert "radius" in refused(tiny, radii=torch.full((8,), -0.1))
    assert "radius" in refused(tiny, radii=torch.full((8,), torch.nan))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", NAMES)
def test_normalised_heads_are_certified_for_the_sign_of_cosine_margins(name: str, tiny: Encoder, edges: Tensor) -> None:
    class Normalised(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = tiny.module

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.normalize(self.body(x), dim=1)

    encoder, margin, x = Encoder(Normalised(), mean=0.5, std=0.5), margins(12, count=4), edges[:4]
    cosine = Margin(margin.weights, torch.zeros(4, 3))
    bound, inner = (make(name)(e, cosine, x, Linf(0.004)) for e in (encoder, tiny))
    assert torch.equal(bound.lower > 0, inner.lower > 0)
    assert torch.equal(bound.vacuous, inner.lower <= 0)
    assert bool((bound.lower > 0).any())
    reach = Pgd(8)(lambda z: (-cosine(encoder(z))[:, 0], encoder(z)), x, Linf(0.004), Rng(0, ids=IDS[:4])).reps[8]
    assert bool((bound.lower <= cosine(reach)).all())  # in the units of the margin, so no attack is below
    for bias in (1e-6, -1e-6):  # what rounding leaves of a bias: it counts, for its sign may decide
        rounded = make(name)(encoder, Margin(margin.weights, torch.full((4, 3), bias)), x, Linf(0.004)).lower
        torch.testing.assert_close(rounded, bound.lower, rtol=0, atol=2e-6)
        assert bool((rounded <= bound.lower + max(bias, 0)).all())
    with pytest.raises(NotCertified, match="normalises"):
        make(name)(encoder, margin, x, BALLS[0])
