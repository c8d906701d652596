"""Low-pass: waves below the radius stay, waves above it go, whatever the size of the image."""

import numpy as np
import pytest
import torch
from torch import Tensor

from holdfast.core import Rng
from holdfast.parts.threats.lowpass import Lowpass
from holdfast.runtime.errors import BadValue

RNG = Rng(0, ids=("a",))


def wave(height: int, width: int, down: int, across: int) -> Tensor:
    """Return 1/2 + 1/4 cos of so many cycles down and across the image."""
    rows, columns = torch.meshgrid(torch.arange(height) / height, torch.arange(width) / width, indexing="ij")
    return (0.5 + 0.25 * torch.cos(2 * torch.pi * (down * rows + across * columns)))[None, None]


def stays(x: Tensor, lowpass: Lowpass) -> bool:
    """Whether a wave comes through whole; otherwise its grey must be all that is left."""
    out = lowpass.sample(x, RNG)
    left = x if (whole := float((out - x).abs().max()) < 1e-5) else torch.full_like(x, 0.5)
    torch.testing.assert_close(out, left, atol=1e-5, rtol=0)
    return whole


@pytest.mark.parametrize(
    ("down", "across", "expected"),
    [
        (0, 0, True),
        (5, 0, True),
        (0, 6, True),
        (7, 0, True),
        (0, 8, False),
        (5, 5, True),
        (5, -6, False),
        (-5, 4, True),
        (8, 8, False),
    ],
)
def test_waves_on_either_side_of_the_radius(down: int, across: int, expected: bool) -> None:
    # 32 pixels: 50 · 32 / 224 = 7.14 cycles: 5² + 5² = 50 is within 51.02, 5² + 6² = 61 is not
    x = wave(32, 32, down, across)
    assert stays(x, Lowpass()) is expected


def test_the_radius_itself_goes() -> None:
    lowpass = Lowpass(5.0, side=32)
    assert not stays(wave(32, 32, 3, 4), lowpass)
    assert not stays(wave(32, 32, 0, 5), lowpass)
    assert stays(wave(32, 32, 3, 3), lowpass)
    assert not stays(wave(64, 64, 6, 8), lowpass)


def test_frequencies_are_per_pixel_on_images_that_are_not_square() -> None:
    lowpass = Lowpass(8.0, side=32)  # a quarter of a cycle per pixel: less than 4 cycles in 16 pixels, 8 in 32
    assert stays(wave(16, 32, 3, 0), lowpass)
    assert not stays(wave(16, 32, 4, 0), lowpass)
    assert stays(wave(16, 32, 0, 7), lowpass)
    assert not stays(wave(16, 32, 0, 8), lowpass)


@pytest.mark.parametrize(("height", "width"), [(24, 24), (15, 15), (9, 20)])
def test_against_the_full_transform_in_numpy(height: int, width: int) -> None:
    x = torch.rand(2, 3, height, width, generator=torch.Generator().manual_seed(0))
    rows = (np.arange(height) - height // 2)[:, None] / height
    columns = (np.arange(width) - width // 2)[None] / width
    kept = np.sqrt(rows**2 + columns**2) < 50 / 224
    spectrum = np.fft.fftshift(np.fft.fft2(x.double().numpy()), axes=(2, 3)) * kept
    expected = np.fft.ifft2(np.fft.ifftshift(spectrum, axes=(2, 3))).real.clip(0, 1)
    out = Lowpass().sample(x, Rng(0, ids=("a", "b")))
    torch.testing.assert_close(out.double(), torch.from_numpy(expected), atol=1e-5, rtol=0)
    assert float((out - x).abs().mean()) > 0.05


def test_a_large_radius_is_the_identity_and_a_small_one_leaves_the_mean() -> None:
    x = torch.rand(1, 3, 20, 20, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(Lowpass(224 / 2**0.5 + 0.01).sample(x, RNG), x, atol=1e-6, rtol=0)
    assert float((Lowpass(224 / 2**0.5 - 0.01).sample(x, RNG) - x).abs().max()) > 1e-4  # the corner is gone
    torch.testing.assert_close(Lowpass(1.0).sample(x, RNG), x.mean((2, 3), keepdim=True).expand_as(x))


def test_the_result_stays_in_the_box() -> None:
    x = (torch.rand(1, 1, 32, 32, generator=torch.Generator().manual_seed(0)) > 0.9).float()
    out = Lowpass().sample(x, RNG)
    assert out.min() == 0
    assert out.max() <= 1


def test_lowpass_says_what_it_is_and_what_it_cannot_be() -> None:
    assert Lowpass().title == "low-pass 50/224"
    assert Lowpass(7.5, 32).title == "low-pass 7.5/32"
    for radius in (0.0, -1.0, float("nan")):
        with pytest.raises(BadValue, match=rf"^lowpass\.radius: .*got {radius}$"):
            Lowpass(radius)
    with pytest.raises(BadValue, match=r"lowpass\.side"):
        Lowpass(5.0, 0)
