"""Noises against closed forms: distributions of pixels and lengths, and images whose change is known."""

import math

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import Tensor

from holdfast.core import Ball, Noise, Rng
from holdfast.parts.threats.brightness import Brightness
from holdfast.parts.threats.contrast import Contrast
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.parts.threats.hue import Hue
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.laplace import Laplace
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.rotation import Rotation
from holdfast.parts.threats.shared.length import to_truncated_length
from holdfast.parts.threats.translation import Translation
from holdfast.parts.threats.truncated_gaussian import TruncatedGaussian
from holdfast.parts.threats.uniform import Uniform

GREY = torch.full((1, 1, 8, 8), 0.5)
SURE = 1e-3
"""Seeds are fixed: a right distribution passes for ever, at this level nearly every seed does."""


def drawn(noise: Noise, x: Tensor = GREY, draws: int = 20_000) -> Tensor:
    """Return perturbations as shares of the radius, [draws, C, H, W]."""
    assert noise.ball is not None
    z = Rng(1, ids=("a",)).normal(draws, noise.numbers(x))
    return (noise.push(x, z)[0] - x) / noise.ball.radius


def middle(name: str, scale: float):
    """Return the distribution function of a pixel or a length around 0, and how far it reaches."""
    law = stats.norm(scale=scale) if name == "gaussian" else stats.laplace(scale=scale)
    return lambda t: (law.cdf(np.clip(t, -1, 1)) - law.cdf(-1)) / (law.cdf(1) - law.cdf(-1))


@pytest.mark.parametrize("pixel", [0, 37])
@pytest.mark.parametrize(
    ("noise", "law"),
    [
        (Uniform(Linf(0.1)), stats.uniform(-1, 2).cdf),
        *[(TruncatedGaussian(Linf(0.1), s), middle("gaussian", s)) for s in (0.1, 0.5, 3.0)],
        *[(Laplace(Linf(0.1), s), middle("laplace", s)) for s in (0.1, 0.5, 3.0)],
    ],
    ids=lambda part: str(part) if isinstance(part, Noise) else "",
)
def test_pixels_follow_the_law(noise: Noise, law, pixel: int) -> None:
    values = drawn(noise).flatten(1)[:, pixel].numpy()
    assert stats.kstest(values, law).pvalue > SURE
    assert stats.kstest(values * 1.05, law).pvalue < SURE  # the test would see 5 %


@pytest.mark.parametrize(("ball", "pixels"), [(Linf(0.1), 1), (L2(0.1), 4)], ids=str)
def test_points_of_a_ball_are_uniform(ball: Ball, pixels: int) -> None:
    """Of d pixels, the share (length / radius)^d of the ℓ2 ball lies nearer; each pixel of the ℓ∞ ball has d = 1."""
    x = torch.full((2000, 1, 2, 2), 0.5)
    moved = ball.sample(x, Rng(0, ids=tuple(map(str, range(2000))))) - x
    length = moved[:, 0, 0, 0].abs() if pixels == 1 else ball.size(moved)
    assert stats.kstest((length / ball.radius) ** pixels, "uniform").pvalue > SURE


def test_gaussian_noise_has_the_deviation_that_it_is_given() -> None:
    x = torch.full((1000, 1, 2, 2), 0.5)
    ids = tuple(map(str, range(1000)))
    noise = (Gaussian(0.2, clamped=False).sample(x, Rng(0, ids=ids)) - x).flatten().numpy()
    assert stats.kstest(noise, stats.norm(scale=0.2).cdf).pvalue > SURE


def length_law(noise: Noise, d: int):
    """Return the distribution function of the length of noise in an ℓ2 ball."""
    if isinstance(noise, Uniform):
        return lambda r: np.clip(r, 0, 1) ** d
    if isinstance(noise, Laplace):
        reach = d / noise.scale
        return lambda r: special.gammainc(d, np.clip(r, 0, 1) * reach) / special.gammainc(d, reach)
    assert isinstance(noise, TruncatedGaussian)
    reach = d / (2 * noise.scale**2)
    return lambda r: special.gammainc(d / 2, np.clip(r, 0, 1) ** 2 * reach) / special.gammainc(d / 2, reach)


@pytest.mark.parametrize(
    "noise",
    [
        Uniform(L2(0.3)),
        *[TruncatedGaussian(L2(0.3), s) for s in (0.3, 1.0, 3.0)],
        *[Laplace(L2(0.3), s) for s in (0.3, 1.0, 3.0)],
    ],
    ids=str,
)
def test_lengths_and_directions_follow_the_law(noise: Noise) -> None:
    delta = drawn(noise).flatten(1)
    length = delta.norm(dim=1)
    law = length_law(noise, 64)
    assert stats.kstest(length.numpy(), law).pvalue > SURE
    assert stats.kstest(0.97 * length.numpy(), law).pvalue < SURE
    towards = (delta / length[:, None])[:, 11].numpy()  # (1 + a pixel of a direction) / 2 is Beta((d-1)/2, (d-1)/2)
    assert stats.kstest((1 + towards) / 2, stats.beta(31.5, 31.5).cdf).pvalue > SURE


@pytest.mark.parametrize("pixels", [1, 2, 64, 3072, 150_528])
@pytest.mark.parametrize("scale", [0.05, 0.5, 1.0])
def test_tables_of_lengths_are_inverses(pixels: int, scale: float) -> None:
    z = torch.linspace(-6, 6, 1001, dtype=torch.float64)
    shares = special.ndtr(z.numpy())
    for name, law in (
        ("gaussian", stats.chi(pixels, scale=scale / pixels**0.5)),
        ("laplace", stats.gamma(pixels, scale=scale / pixels)),
    ):
        got = to_truncated_length(z, name, pixels, scale).numpy()
        low, high = shares * law.cdf(1), law.sf(1) + special.ndtr(-z.numpy()) * law.cdf(1)
        assert np.abs(got - np.where(z.numpy() < 0, law.ppf(low), law.isf(high))).max() < 1.2e-5


def test_very_wide_gaussians_and_laplaces_are_uniform() -> None:
    for pixels in (2, 3072):
        z = torch.linspace(-5, 5, 101, dtype=torch.float64)
        want = special.ndtr(z.numpy()) ** (1 / pixels)
        for name in ("gaussian", "laplace"):
            assert np.abs(to_truncated_length(z, name, pixels, 1e6).numpy() - want).max() < 1.2e-5


def test_the_authors_gaussian_is_clamped() -> None:
    pixel = drawn(TruncatedGaussian(Linf(0.1), 1.0, clamped=True)).flatten(1)[:, 3]
    outside = 2 * stats.norm.sf(1)
    assert abs(float((pixel.abs() > 1 - 1e-5).double().mean()) - outside) < 4 * math.sqrt(outside / 20_000)
    inside = pixel[pixel.abs() < 1 - 1e-5].numpy()
    assert stats.kstest(inside, middle("gaussian", 1.0)).pvalue > SURE


def test_pixels_on_the_edge_are_clamped_not_redrawn() -> None:
    black = torch.zeros(1, 1, 4, 4)
    pixel = drawn(Uniform(Linf(0.1)), black).flatten(1)[:, 0]
    assert abs(float((pixel == 0).double().mean()) - 0.5) < 0.02


def test_brightness_and_contrast_do_what_they_say() -> None:
    x = 0.3 + 0.4 * torch.rand(2, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    z = torch.tensor([[[-40.0], [0.6744898], [40.0]]] * 2)  # shares -1, ½ and 1
    shares = torch.tensor([-1, 0.5, 1])
    brighter = Brightness(0.2).push(x, z) - x[:, None]
    torch.testing.assert_close(brighter, (0.2 * shares).view(1, 3, 1, 1, 1).expand_as(brighter), rtol=0, atol=1e-6)
    stronger = Contrast(0.3).push(x, z)
    torch.testing.assert_close(stronger.mean((2, 3, 4)), x.mean((1, 2, 3))[:, None].expand(2, 3))
    spread = stronger.flatten(2).std(2) / x.flatten(1).std(1)[:, None]
    torch.testing.assert_close(spread, (1 + 0.3 * shares).expand(2, 3))


def test_rotation_by_right_angles_and_translation_by_pixels_move_pixels() -> None:
    x = torch.rand(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    z = torch.tensor([[[-40.0], [40.0]]] * 2)
    turned = Rotation(90).push(x, z)
    torch.testing.assert_close(turned[:, 0], x.rot90(-1, (2, 3)), rtol=0, atol=1e-5)
    torch.testing.assert_close(turned[:, 1], x.rot90(1, (2, 3)), rtol=0, atol=1e-5)
    wide = torch.rand(1, 1, 5, 10, generator=torch.Generator().manual_seed(0))
    moved = Translation(0.2).push(wide, torch.tensor([[[40.0, 0.0], [0.0, 40.0], [-40.0, -40.0]]]))[0]
    want = torch.stack([wide[0].roll(1, 1), wide[0].roll(2, 2), wide[0].roll((-1, -2), (1, 2))])
    want[0, :, 0], want[1, :, :, :2] = wide[0, :, 0], wide[0, :, :, :1]
    want[2, :, -1], want[2, :, :, -2:] = want[2, :, -2].clone(), 0
    want[2, :, :4, -2:], want[2, :, 4, -2:] = wide[0, :, 1:, -1:], wide[0, :, 4:, -1]
    torch.testing.assert_close(moved, want, rtol=0, atol=1e-5)


def test_rotation_keeps_shapes_in_images_that_are_not_square() -> None:
    x = torch.zeros(1, 1, 9, 15)
    x[0, 0, 4, 7:11] = 1  # a line from the centre to the right
    up = Rotation(90).push(x, torch.tensor([[[40.0]]]))[0, 0, 0]
    want = torch.zeros(9, 15)
    want[1:5, 7] = 1
    torch.testing.assert_close(up, want, rtol=0, atol=1e-5)


def test_angles_are_uniform() -> None:
    x = torch.zeros(1, 1, 33, 33)
    x[0, 0] = torch.linspace(0.2, 0.8, 33)  # a ramp: its slope turns with the image
    out = Rotation(30).push(x, Rng(1, ids=("a",)).normal(2_000, 1))[0, :, 0]
    down, right = out[:, 17, 16] - out[:, 15, 16], out[:, 16, 17] - out[:, 16, 15]
    angles = -torch.rad2deg(torch.atan2(down, right)).numpy()
    assert stats.kstest(angles, stats.uniform(-30, 60).cdf).pvalue > SURE


def test_hue_turns_chroma_and_keeps_luma() -> None:
    x = 0.4 + 0.2 * torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    x[0, :, 0, 0] = 0.5
    out = Hue(180).push(x, torch.tensor([[[40.0], [0.6744898]]]))[0]
    luma = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
    torch.testing.assert_close((luma * out).sum(1), (luma * x[0]).sum(0).expand(2, 4, 4), rtol=0, atol=1e-5)
    torch.testing.assert_close(out[:, :, 0, 0], torch.full((2, 3), 0.5), rtol=0, atol=1e-6)
    grey = (luma * x[0]).sum(0)
    torch.testing.assert_close(out[0] - grey, -(x[0] - grey), rtol=0, atol=1e-5)  # half a turn
    in_phase, quadrature = (
        torch.tensor(row).view(3, 1, 1) for row in ((0.595716, -0.274453, -0.321263), (0.211456, -0.522591, 0.311135))
    )
    torch.testing.assert_close((in_phase * out[1]).sum(0), -(quadrature * x[0]).sum(0), rtol=0, atol=1e-5)
    torch.testing.assert_close((quadrature * out[1]).sum(0), (in_phase * x[0]).sum(0), rtol=0, atol=1e-5)


def test_lengths_of_uniform_noise_are_exact() -> None:
    z = Rng(1, ids=("a",)).normal(50, 65)
    length = ((Uniform(L2(0.3)).push(GREY, z)[0] - GREY) / 0.3).flatten(1).norm(dim=1)
    want = special.ndtr(z[0, :, -1].numpy()) ** (1 / 64)
    torch.testing.assert_close(length, torch.from_numpy(want), rtol=0, atol=2e-6)
