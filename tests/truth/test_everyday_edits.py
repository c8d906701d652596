"""What people do to pictures: JPEG, rescaling and cropping against Pillow and by hand."""

from io import BytesIO

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor

from holdfast.core import Rng
from holdfast.parts.threats.crop import Crop
from holdfast.parts.threats.jpeg import Jpeg
from holdfast.parts.threats.rescale import Rescale
from holdfast.runtime.errors import BadValue, Unsupported

RNG = Rng(0, ids=("a", "b"))


@pytest.fixture
def pictures() -> Tensor:
    """Two smooth pictures of 12 by 20 pixels, of 8 bits."""
    rows, columns = torch.meshgrid(torch.linspace(0, 3, 12), torch.linspace(0, 5, 20), indexing="ij")
    shown = torch.stack([torch.stack([(rows * k + columns + c).sin() for c in range(3)]) for k in (1, 2)])
    return (255 * (shown + 1) / 2).round() / 255


@pytest.mark.parametrize("quality", [10, 50, 95])
def test_jpeg_is_the_file_that_pillow_reads(quality: int, pictures: Tensor) -> None:
    edited = Jpeg(quality).sample(pictures, RNG)
    for image, came in zip(pictures, edited, strict=True):
        file = BytesIO()
        levels = (255 * image.permute(1, 2, 0)).round().byte().numpy()
        PIL.Image.fromarray(levels).save(file, "jpeg", quality=quality)
        np.testing.assert_allclose(came.permute(1, 2, 0) * 255, np.asarray(PIL.Image.open(file)), atol=1e-4)


@pytest.mark.parametrize("scale", [0.25, 0.5, 0.8])
def test_rescaling_is_pillows(scale: float, pictures: Tensor) -> None:
    edited = Rescale(scale).sample(pictures, RNG)
    small = (max(1, round(scale * 20)), max(1, round(scale * 12)))
    for image, came in zip(pictures.flatten(0, 1), edited.flatten(0, 1), strict=True):
        bilinear = PIL.Image.Resampling.BILINEAR
        again = PIL.Image.fromarray(image.numpy()).resize(small, bilinear).resize((20, 12), bilinear)
        np.testing.assert_allclose(came, np.asarray(again), atol=1e-5)
    flat = torch.full((2, 1, 9, 7), 0.3)
    torch.testing.assert_close(Rescale(scale).sample(flat, RNG), flat)


def test_a_crop_is_the_middle_enlarged() -> None:
    """On a ramp over the columns: value at column p is p; the crop's runs through the middle, `side` times as steep."""
    ramp = (torch.arange(20.0) / 19).expand(2, 1, 12, 20)
    middle, places = 19 / 2, torch.arange(20.0) - 19 / 2
    for side in (0.3, 0.9):
        expected = ((middle + side * places) / 19).expand_as(ramp)
        torch.testing.assert_close(Crop(side).sample(ramp, RNG), expected, rtol=0, atol=1e-5)
        upright = Crop(side).sample(ramp.mT.contiguous(), RNG)
        torch.testing.assert_close(upright, expected.mT, rtol=0, atol=1e-5)


def test_edits_refuse_what_they_do_not_know() -> None:
    for wrong in (0, 96):
        with pytest.raises(BadValue, match="quality"):
            Jpeg(wrong)
    with pytest.raises(Unsupported, match="2 channels"):
        Jpeg().sample(torch.rand(2, 2, 8, 8), RNG)
    for wrong in (0.0, 1.0, 1.5):
        with pytest.raises(BadValue, match="scale"):
            Rescale(wrong)
        with pytest.raises(BadValue, match="side"):
            Crop(wrong)
