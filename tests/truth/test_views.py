"""Views: what an image becomes depends on its id alone, and each change is the one that its formula says."""

import math

import pytest
import torch
from torch import Tensor

from holdfast.core import Rng
from holdfast.numerics.geometry.views import LUMA, Views, _blur_images, _rotate_hue
from holdfast.runtime.errors import BadValue

STILL = Views(crop=(1.0, 1.0), flip=0.0, colour=0.0, grey=0.0)
IDS = tuple(f"image-{n}" for n in range(40))
RNG = Rng(0, ("views",), IDS)


def only(**values) -> Views:
    """Views that do one thing."""
    return Views(**{"crop": (1.0, 1.0), "flip": 0.0, "colour": 0.0, "grey": 0.0, **values})


def pictures(channels: int = 3, side: int = 16) -> Tensor:
    return torch.rand(len(IDS), channels, side, side, generator=torch.Generator().manual_seed(0))


def test_views_depend_on_the_image_and_not_on_the_batch() -> None:
    x, views = pictures(), Views(rotate=10, shift=0.1, blur_share=0.5, solarize=0.3, noise=0.1, hole=3, hole_share=0.5)
    whole = views(x, RNG)
    some = [7, 2, 30]
    torch.testing.assert_close(views(x[some], RNG.at([IDS[n] for n in some])), whole[some])
    assert not torch.equal(whole, views(x, RNG.child("other view")))
    assert whole.min() >= 0
    assert whole.max() <= 1
    assert whole.shape == x.shape


def test_views_that_do_nothing() -> None:
    x = pictures()
    assert torch.equal(STILL(x, RNG), x)


def test_mirror_images() -> None:
    x = pictures()
    torch.testing.assert_close(only(flip=1.0)(x, RNG), x.flip(3), atol=1e-5, rtol=0)
    half = only(flip=0.5)(x, RNG)
    mirrored = (half - x.flip(3)).abs().amax((1, 2, 3)) < 1e-5
    assert 8 < int(mirrored.sum()) < 32
    torch.testing.assert_close(half[~mirrored], x[~mirrored], atol=1e-5, rtol=0)


def ramp(height: int, width: int) -> Tensor:
    """Images whose two channels (and a zero one) say where a pixel is, in [0, 1] from edge to edge of the image."""
    rows = (torch.arange(height) + 0.5) / height
    columns = (torch.arange(width) + 0.5) / width
    return torch.stack(
        [rows[:, None].expand(height, width), columns.expand(height, width), torch.zeros(height, width)]
    ).expand(len(IDS), 3, height, width)


def test_crops_keep_the_share_that_was_asked_for() -> None:
    """A crop of a linear ramp is a linear ramp, whose slope is the share of the side that it shows."""
    seen = only(crop=(0.25, 0.64), ratio=(1.0, 1.0))(ramp(32, 32), RNG)[:, :, 8:-8, 8:-8]
    shares = 32 * seen[:, 0].diff(dim=1).mean((1, 2)), 32 * seen[:, 1].diff(dim=2).mean((1, 2))
    torch.testing.assert_close(*shares, atol=1e-4, rtol=0)
    area = shares[0] * shares[1]
    assert 0.25 - 1e-3 <= area.min() < 0.3
    assert 0.58 < area.max() <= 0.64 + 1e-3
    assert seen[:, :2].min() > 0  # inside the image
    assert seen[:, :2].max() < 1
    wide = only(crop=(0.25, 0.25), ratio=(2.0, 2.0))(ramp(32, 32), RNG)[:, :, 8:-8, 8:-8]
    ratio = wide[:, 1].diff(dim=2).mean((1, 2)) / wide[:, 0].diff(dim=1).mean((1, 2))
    torch.testing.assert_close(ratio, torch.full((len(IDS),), 2.0), atol=1e-3, rtol=0)


@pytest.mark.parametrize("shape", [(24, 24), (16, 32)])
def test_turns_are_turns_in_pixels(shape: tuple[int, int]) -> None:
    height, width = shape
    middle = slice(height // 4, -height // 4), slice(width // 4, -width // 4)
    seen = only(rotate=30.0)(ramp(height, width), RNG)[:, :2, *middle]
    down = torch.stack([height * seen[:, 0].diff(dim=1).mean((1, 2)), width * seen[:, 1].diff(dim=1).mean((1, 2))], 1)
    right = torch.stack([height * seen[:, 0].diff(dim=2).mean((1, 2)), width * seen[:, 1].diff(dim=2).mean((1, 2))], 1)
    ones = torch.ones(len(IDS))
    torch.testing.assert_close(down.norm(dim=1), ones, atol=2e-3, rtol=0)  # lengths stay,
    torch.testing.assert_close(right.norm(dim=1), ones, atol=2e-3, rtol=0)
    torch.testing.assert_close((down * right).sum(1), 0 * ones, atol=2e-3, rtol=0)  # and right angles
    angles = torch.atan2(right[:, 0], right[:, 1]).rad2deg()
    assert angles.abs().max() <= 30.1
    assert angles.min() < -20
    assert angles.max() > 20


def test_moves_and_scales() -> None:
    seen = only(shift=0.25)(ramp(16, 16), RNG)
    moved = (seen[:, :2] - ramp(16, 16)[:, :2])[:, :, 6:10, 6:10].mean((2, 3))
    assert moved.abs().max() <= 0.25 + 1e-5
    assert moved.abs().max() > 0.2
    grown = only(scale=(2.0, 2.0))(ramp(16, 16), RNG)[:, :, 4:-4, 4:-4]
    slope = 16 * grown[:, 0].diff(dim=1).mean((1, 2))
    torch.testing.assert_close(slope, torch.full_like(slope, 0.5), atol=1e-4, rtol=0)  # twice as large: half the slope


def test_colours() -> None:
    x = 0.3 + 0.4 * pictures()
    luma = torch.tensor(LUMA).view(1, 3, 1, 1)
    grey = only(grey=1.0)(x, RNG)
    torch.testing.assert_close(grey, (x * luma).sum(1, keepdim=True).expand_as(x))
    changed = only(colour=0.2, colour_share=1.0)(x, RNG)
    assert ((changed - x).abs().amax((1, 2, 3)) > 1e-3).all()
    some = only(colour=0.2, colour_share=0.5)(x, RNG)
    assert 8 < int((some == x).flatten(1).all(1).sum()) < 32
    one_channel = pictures(1)
    assert torch.equal(only(colour=0.4, grey=1.0)(one_channel, RNG), one_channel)


def test_light_changes_brightness_and_contrast_of_grey_images() -> None:
    x = 0.3 + 0.2 * pictures(1)
    lit = only(light=0.4, colour_share=1.0)(x, RNG)
    contrast = lit.std((1, 2, 3)) / x.std((1, 2, 3))
    bright = lit.mean((1, 2, 3)) / x.mean((1, 2, 3))
    for factor, most in ((bright, 0.4), (contrast / bright, 0.4)):
        assert 1 - most <= factor.min() < 1 - 0.8 * most
        assert 1 + 0.8 * most < factor.max() <= 1 + most
    line = lit.mean((1, 2, 3), keepdim=True) + contrast.view(-1, 1, 1, 1) * (x - x.mean((1, 2, 3), keepdim=True))
    torch.testing.assert_close(lit, line)  # and nothing else
    some = only(light=0.4, colour_share=0.5)(x, RNG)
    assert 8 < int((some == x).flatten(1).all(1).sum()) < 32
    assert torch.equal(only(light=0.4)(pictures(), RNG), pictures())  # colours have their own


def test_hue_turns_chroma_and_keeps_luma() -> None:
    x = pictures()
    luma = torch.tensor(LUMA).view(1, 3, 1, 1)
    chroma = x - (x * luma).sum(1, keepdim=True)
    full, none = _rotate_hue(chroma, torch.full((len(x),), 2 * math.pi)), _rotate_hue(chroma, torch.zeros(len(x)))
    torch.testing.assert_close(full, chroma, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(none, chroma, atol=1e-5, rtol=1e-4)
    once = _rotate_hue(chroma, torch.full((len(x),), 0.4))
    torch.testing.assert_close((once * luma).sum(1), torch.zeros_like(once[:, 0]), atol=1e-5, rtol=0)
    torch.testing.assert_close(_rotate_hue(once, torch.full((len(x),), -0.4)), chroma, atol=1e-5, rtol=1e-4)


def test_blur_is_a_gaussian_of_each_images_own_width() -> None:
    x = torch.zeros(2, 1, 33, 33)
    x[:, :, 16, 16] = 1
    sigma = torch.tensor([0.8, 2.0])
    seen = _blur_images(x, sigma, 2.0)
    at = torch.arange(33) - 16.0
    for image, width in zip(seen[:, 0], sigma, strict=True):
        kernel = torch.exp(-(at**2) / (2 * width**2)) * (at.abs() <= 4)
        expected = torch.outer(kernel, kernel) / kernel.sum() ** 2
        torch.testing.assert_close(image, expected, atol=1e-6, rtol=1e-4)


def test_solarize_gain_noise_and_holes() -> None:
    x = pictures()
    torch.testing.assert_close(only(solarize=1.0)(x, RNG), torch.where(x > 0.5, 1 - x, x))
    factors = (only(gain=(0.5, 0.9))(x, RNG) / x)[:, 0, 0, 0]
    assert 0.5 <= factors.min() < 0.6
    assert 0.8 < factors.max() <= 0.9
    grey = torch.full_like(x, 0.5)
    noise = only(noise=0.05)(grey, RNG) - grey
    assert float(noise.std()) == pytest.approx(0.05, rel=0.02)
    holed = only(hole=3, hole_share=1.0)(torch.ones_like(x), RNG)
    black = (holed == 0).all(1)
    assert set(black.flatten(1).sum(1).tolist()) <= {4, 6, 9}  # whole, at an edge, in a corner
    assert int((black.flatten(1).sum(1) == 9).sum()) > 20
    torch.testing.assert_close(only(hole=3, hole_share=0.0)(x, RNG), x)


def test_small_views_show_less() -> None:
    views = Views(crop=(0.9, 1.0), ratio=(1.0, 1.0), flip=0.0, colour=0.0, grey=0.0, local=2, local_crop=(0.04, 0.05))
    large = 32 * views(ramp(32, 32), RNG)[:, 0, 8:-8].diff(dim=1).mean((1, 2))
    small = 32 * views(ramp(32, 32), RNG, local=True)[:, 0, 8:-8].diff(dim=1).mean((1, 2))
    assert large.min() > 0.94
    assert small.max() < 0.23


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("crop", (0.0, 1.0), r"views: expected ranges \[low, high\] with 0 < low <= high"),
        ("crop", (0.8, 0.2), r"views: expected ranges \[low, high\] with 0 < low <= high"),
        ("blur", (2.0, 1.0), r"views: expected ranges \[low, high\] with 0 < low <= high"),
        ("blur", (1.0,), "views.blur: expected a list of 2"),
        ("crop", (0.5, 1.5), "views: a crop keeps a share of the area, at most 1"),
        ("local_crop", (0.5, 2.0), "views: a crop keeps a share of the area, at most 1"),
        ("flip", 1.5, r"views: expected probabilities in \[0, 1\], got flip=1.5"),
        ("colour", 1.0, r"views: expected colour in \[0, 1\), got 1"),
        ("light", 1.0, r"views: expected light in \[0, 1\), got 1"),
        ("noise", float("nan"), "views.noise: expected a finite number, got nan"),
        *[(name, value, f"views.{name}: expected 0 or more, got {value}") for name, value in (
            ("grey", -0.1), ("rotate", -1.0), ("noise", -0.1), ("hole", -1), ("shift", -1.0), ("local", -1),
            ("colour", -0.1),
        )],
        ("local_size", 0, "views.local_size: expected a whole number above 0 or None, got 0"),
    ],
)  # fmt: skip
def test_wrong_views(parameter: str, value: object, message: str) -> None:
    with pytest.raises(BadValue, match=f"^{message}"):
        Views(**{parameter: value})
