"""Common corruptions (threat, noise, digital) against the published formulas, written here with NumPy, SciPy, Pillow.

Tolerances, in 8-bit levels. The published generators compute in float64 and cut; where exact arithmetic lands on a
level their rounding may fall one below it, and ours does not, so "one level" is allowed where the formula can do so:

    contrast, gaussian_noise, speckle_noise, impulse_noise    none, but one level at 0.1 % of values
    brightness, saturate                                      one level
    pixelate                                                  one level at 0.1 % of values
    jpeg_compression                                          grey: one level where the codec's integers decide nothing;
                                                              colours: one level on average
    elastic_transform                                         one level at 1 % of values
"""

import io
from functools import lru_cache

import numpy as np
import PIL.Image
import pytest
import torch
from matplotlib.colors import hsv_to_rgb, rgb_to_hsv
from scipy import fft, ndimage, stats
from sklearn.datasets import load_sample_images
from torch import Tensor

from holdfast.core import Rng
from holdfast.parts.threats.imagenet_c import CORRUPTIONS, EXTRA, FUNCTIONS, ImagenetC
from holdfast.parts.threats.imagenet_c.constants import CIFAR, IMAGENET
from holdfast.runtime.errors import BadValue, Conflict, UnknownName, Unsupported

SEVERITIES = (1, 2, 3, 4, 5)
TABLES = {"imagenet": IMAGENET, "cifar": CIFAR}
SIDES = {"imagenet": 96, "cifar": 32}


@lru_cache
def photographs(side: int) -> Tensor:
    """Return four square photographs with 8 bits, [4, 3, side, side]."""
    pictures = [
        PIL.Image.fromarray(image[:, left : left + 420][:420])
        for image in load_sample_images().images
        for left in (0, 220)
    ]
    small = np.stack([np.array(picture.resize((side, side), PIL.Image.Resampling.BICUBIC)) for picture in pictures])
    return torch.from_numpy(small).permute(0, 3, 1, 2).float() / 255


def rng(x: Tensor, seed: int = 3) -> Rng:
    return Rng(seed, ids=tuple("abcdefgh"[: len(x)]))


def corrupted(x: Tensor, corruption: str, severity: int, constants: str) -> np.ndarray:
    """Return the levels that ImagenetC gives, [B, C, H, W]."""
    levels = 255 * ImagenetC(corruption, severity, constants).sample(x, rng(x)).double().numpy()
    assert np.abs(levels - levels.round()).max() < 1e-4
    return levels.round().astype(int)


def cut(x: np.ndarray) -> np.ndarray:
    """Return the levels to which the published generators cut pixels."""
    return np.uint8(x.clip(0, 1) * 255).astype(int)


def hsv(image: np.ndarray) -> np.ndarray:
    return rgb_to_hsv(image.transpose(1, 2, 0))


def rgb(image: np.ndarray) -> np.ndarray:
    return hsv_to_rgb(image).transpose(2, 0, 1)


def brightness(image: np.ndarray, shift: float) -> np.ndarray:
    colours = hsv(image)
    colours[..., 2] = (colours[..., 2] + shift).clip(0, 1)
    return cut(rgb(colours))


def saturate(image: np.ndarray, factor: float, offset: float) -> np.ndarray:
    colours = hsv(image)
    colours[..., 1] = (colours[..., 1] * factor + offset).clip(0, 1)
    return cut(rgb(colours))


def contrast(image: np.ndarray, factor: float) -> np.ndarray:
    mean = image.mean((1, 2), keepdims=True)
    return cut((image - mean) * factor + mean)


def pixelate(image: np.ndarray, share: float) -> np.ndarray:
    picture = PIL.Image.fromarray((255 * image).round().astype(np.uint8).transpose(1, 2, 0))
    small = picture.resize((int(picture.width * share), int(picture.height * share)), PIL.Image.Resampling.BOX)
    return np.array(small.resize(picture.size, PIL.Image.Resampling.BOX)).transpose(2, 0, 1).astype(int)


FORMULAS = {"brightness": brightness, "saturate": saturate, "contrast": contrast, "pixelate": pixelate}


@pytest.mark.parametrize("constants", TABLES)
@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize(
    ("corruption", "off"), [("brightness", 1), ("saturate", 1), ("contrast", 1e-3), ("pixelate", 1e-3)]
)
def test_digital_corruptions_are_the_published_formulas(
    corruption: str, off: float, severity: int, constants: str
) -> None:
    x = photographs(SIDES[constants] + 1)  # an odd side, which no window divides
    out = corrupted(x, corruption, severity, constants)
    numbers = TABLES[constants][corruption][severity - 1]
    for image, got in zip(x.double().numpy(), out, strict=True):
        away = np.abs(got - FORMULAS[corruption](image, *numbers))
        assert away.max() <= 1
        assert (away > 0).mean() <= off


def test_saturation_and_brightness_of_extreme_pixels() -> None:
    # black, white, grey, pure red, pure blue; by the formulas black stays without colour and brightens to grey
    pixels = torch.tensor([[0, 0, 0], [1, 1, 1], [0.6, 0.6, 0.6], [1, 0, 0], [0, 0, 0.4]]).T.reshape(1, 3, 1, 5)
    bright = corrupted(pixels, "brightness", 2, "imagenet")[0, :, 0].T
    assert bright.tolist() == [[51, 51, 51], [255, 255, 255], [204, 204, 204], [255, 0, 0], [0, 0, 153]]
    full = corrupted(pixels, "saturate", 4, "imagenet")[
        0, :, 0
    ].T  # S' = min(5 S + .1, 1); what has no hue counts as red
    assert full.tolist() == [[0, 0, 0], [255, 229, 229], [153, 137, 137], [255, 0, 0], [0, 0, 102]]


def test_pixels_of_a_block_are_its_mean() -> None:
    x = photographs(32)[:1]
    out = corrupted(x, "pixelate", 2, "imagenet")  # half the side
    blocks = (255 * x.double()).round().numpy().reshape(1, 3, 16, 2, 16, 2)
    across = np.floor(blocks.mean(5) + 0.5)  # rows first, each pass rounded
    expected = np.floor(across.mean(3) + 0.5)
    assert (out == expected.repeat(2, 2).repeat(2, 3)).all()


def luminance_table(quality: int) -> np.ndarray:
    """Return the quantisation of a grey JPEG file: the table of the standard (annex K), scaled by the quality."""
    rows = """16 11 10 16 24 40 51 61 12 12 14 19 26 58 60 55 14 13 16 24 40 57 69 56 14 17 22 29 51 87 80 62
              18 22 37 56 68 109 103 77 24 35 55 64 81 104 113 92 49 64 78 87 103 121 120 101 72 92 95 98 112 100
              103 99"""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return ((np.array(rows.split(), int).reshape(8, 8) * scale + 50) // 100).clip(1, 255)


def through_jpeg(plane: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a plane of levels after quantising the cosine transform of its 8 x 8 blocks, and where that is sure.

    The codec's transform is one of integers, in eighths: a coefficient that is so near to a half may go either way.
    """
    height, width = plane.shape
    blocks = plane.reshape(height // 8, 8, width // 8, 8).transpose(0, 2, 1, 3) - 128.0
    shares = fft.dctn(blocks, axes=(2, 3), norm="ortho") / table
    sure = (np.abs(np.abs(shares - np.trunc(shares)) - 0.5) * table > 0.15).all((2, 3))
    back = fft.idctn(shares.round() * table, axes=(2, 3), norm="ortho").transpose(0, 2, 1, 3).reshape(height, width)
    return (back + 128).round().clip(0, 255), sure.repeat(8, 0).repeat(8, 1)


@pytest.mark.parametrize("constants", TABLES)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_jpeg_of_grey_images_quantises_the_cosine_transform(severity: int, constants: str) -> None:
    x = photographs(96)[:, 1:2]
    out = corrupted(x, "jpeg_compression", severity, constants)
    table = luminance_table(int(TABLES[constants]["jpeg_compression"][severity - 1][0]))
    for image, got in zip((255 * x).round().numpy(), out, strict=True):
        expected, sure = through_jpeg(image[0], table)
        away = np.abs(got[0] - expected)
        assert sure.mean() > 0.1
        assert away[sure].max() <= 1
        assert away.mean() < 1


def test_jpeg_keeps_colours_at_half_the_resolution() -> None:
    x = photographs(96)
    out = corrupted(x, "jpeg_compression", 1, "cifar")
    table = luminance_table(80)
    colour = np.full((8, 8), 99)
    colour[:4, :4] = [[17, 18, 24, 47], [18, 21, 26, 66], [24, 26, 56, 99], [47, 66, 99, 99]]
    colour = ((colour * 40 + 50) // 100).clip(1)
    for image, got in zip((255 * x).round().double().numpy(), out, strict=True):
        red, green, blue = image
        grey = 0.299 * red + 0.587 * green + 0.114 * blue
        back = through_jpeg(grey.round(), table)[0]
        differences = []
        for plane in (0.564 * (blue - grey), 0.713 * (red - grey)):
            small = (plane.reshape(48, 2, 48, 2).mean((1, 3)) + 128).round()
            differences.append(
                ndimage.zoom(through_jpeg(small, colour)[0], 2, order=1, grid_mode=True, mode="nearest") - 128
            )
        cb, cr = differences
        expected = np.stack([back + 1.402 * cr, back - 0.344 * cb - 0.714 * cr, back + 1.772 * cb]).clip(0, 255)
        assert np.abs(got - expected).mean() < 1.0
        assert np.abs(got - image).mean() > 1.5  # so the bound above says something


def warped(image: np.ndarray, numbers: Rng, size: float, blur: float, affine: float) -> np.ndarray:
    """Return an image bent by an affine map and a smooth field with the random numbers of one image."""
    height, width = image.shape[1:]
    side = min(height, width)
    middle = np.array([width // 2, height // 2])
    corners = middle + side // 3 * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = corners + affine * side * (2 * numbers.child("affine").uniform(3, 2)[0].double().numpy() - 1)
    forward = np.linalg.solve(np.c_[corners, np.ones(3)], moved)  # [x, y, 1] @ forward
    rows, columns = np.mgrid[:height, :width]
    places = np.stack([columns, rows, np.ones_like(rows)], -1) @ np.linalg.inv(np.c_[forward, [0, 0, 1]])
    at = [places[..., 1], places[..., 0]]
    image = np.stack([ndimage.map_coordinates(plane, at, order=1, mode="mirror") for plane in image])
    if size == 0:
        return cut(image)
    field = 2 * numbers.child("field").uniform(2, height, width)[0].double().numpy() - 1
    dx, dy = (ndimage.gaussian_filter(part, blur * side, mode="reflect", truncate=3) * size * side for part in field)
    at = [rows + dy, columns + dx]
    return cut(np.stack([ndimage.map_coordinates(plane, at, order=1, mode="reflect") for plane in image]))


def check_elastic(x: Tensor, severity: int, constants: str) -> None:
    out = corrupted(x, "elastic_transform", severity, constants)
    numbers = rng(x).child("common", "elastic_transform")
    for image, name, got in zip(x.double().numpy(), numbers.ids, out, strict=True):
        away = np.abs(got - warped(image, numbers.at([name]), *TABLES[constants]["elastic_transform"][severity - 1]))
        assert away.max() <= 1
        assert (away > 0).mean() < 0.01


@pytest.mark.parametrize("constants", TABLES)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_elastic_transform_is_an_affine_map_and_a_smooth_field(severity: int, constants: str) -> None:
    check_elastic(photographs(SIDES[constants]), severity, constants)


def test_elastic_transform_counts_in_shares_of_the_shorter_side() -> None:
    check_elastic(photographs(96)[:, :, :, :61], 2, "imagenet")
    check_elastic(photographs(96)[:, :, :50], 5, "cifar")


def flat(value: float, side: int = 64) -> Tensor:
    return torch.full((4, 3, side, side), value)


@pytest.mark.parametrize("constants", TABLES)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_noises_follow_their_laws(severity: int, constants: str) -> None:
    table, level = TABLES[constants], 0.4
    x = flat(level)
    numbers = rng(x)

    def drawn(corruption: str) -> np.ndarray:
        function = FUNCTIONS[corruption]
        return function(x, numbers, table[corruption][severity - 1]).double().flatten().numpy()

    c = table["gaussian_noise"][severity - 1][0]
    assert stats.kstest(drawn("gaussian_noise"), stats.norm(level, c).cdf).pvalue > 1e-3
    c = table["speckle_noise"][severity - 1][0]
    assert stats.kstest(drawn("speckle_noise"), stats.norm(level, c * level).cdf).pvalue > 1e-3
    c = table["shot_noise"][severity - 1][0]
    photons = (drawn("shot_noise") * c).round()
    law = stats.poisson(0.4 * c)
    inner = np.arange(law.ppf(0.001), law.ppf(0.999) + 1)
    counts = np.array([(photons == k).sum() for k in inner] + [0.0])
    counts[-1] = len(photons) - counts.sum()
    expected = len(photons) * np.append(law.pmf(inner), 1 - law.pmf(inner).sum())
    assert stats.chisquare(counts, expected).pvalue > 1e-3
    c = table["impulse_noise"][severity - 1][0]
    values = drawn("impulse_noise")
    black, white = int((values == 0).sum()), int((values == 1).sum())
    for got in (black, white):
        assert stats.binomtest(got, len(values), c / 2).pvalue > 1e-3
    assert np.allclose(values[(values > 0) & (values < 1)], level)


@pytest.mark.parametrize("constants", TABLES)
@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("corruption", ["gaussian_noise", "speckle_noise", "impulse_noise"])
def test_noises_are_cut_to_8_bits(corruption: str, severity: int, constants: str) -> None:
    x = photographs(32)
    c = TABLES[constants][corruption][severity - 1][0]
    numbers = rng(x).child("common", corruption)
    image = x.double().numpy()
    z = numbers.normal(3, 32, 32).double().numpy()
    u = numbers.uniform(3, 32, 32).numpy()
    expected = {
        "gaussian_noise": image + c * z,
        "speckle_noise": image + image * c * z,
        "impulse_noise": np.where(u < c / 2, 0, np.where(u >= 1 - c / 2, 1, image)),
    }[corruption]
    away = np.abs(corrupted(x, corruption, severity, constants) - np.floor(255 * expected.clip(0, 1) + 1e-3))
    assert away.max() <= 1
    assert (away > 0).mean() < 1e-3


RISING = {  # severities along which the mean change grows as published: saturate first takes colour away and then adds
    # it; elastic_transform changes its kind in ImageNet-C after 2, and in CIFAR-10-C its large affine map shrinks
    ("saturate", "imagenet"): [(1, 2), (3, 4, 5)],
    ("saturate", "cifar"): [(1, 2), (3, 4, 5)],
    ("elastic_transform", "imagenet"): [(1, 2), (3, 4, 5)],
    ("elastic_transform", "cifar"): [(5, 4, 3, 2, 1)],
}
MINE = [
    "gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "brightness", "contrast", "saturate", "pixelate",
    "jpeg_compression", "elastic_transform",
]  # fmt: skip


@pytest.mark.parametrize("constants", TABLES)
@pytest.mark.parametrize("corruption", MINE)
def test_severity_is_monotone(corruption: str, constants: str) -> None:
    x = photographs(SIDES[constants])
    change = {s: np.abs(corrupted(x, corruption, s, constants) - 255 * x.numpy()).mean() for s in SEVERITIES}
    for severities in RISING.get((corruption, constants), [SEVERITIES]):
        assert all(np.diff([change[s] for s in severities]) > 0), change


@pytest.mark.parametrize("corruption", FUNCTIONS)
def test_images_do_not_depend_on_their_batch(corruption: str) -> None:
    x, part = photographs(32), ImagenetC(corruption)
    whole = part.sample(x, rng(x))
    assert whole.shape == x.shape
    assert whole.min() >= 0
    assert whole.max() <= 1
    assert not torch.equal(whole, x)
    some = part.sample(x[[3, 1]], rng(x).at(["d", "b"]))
    assert torch.equal(some, whole[[3, 1]])


@pytest.mark.parametrize("corruption", MINE)
def test_draws_belong_to_the_seed_and_the_image(corruption: str) -> None:
    x, part = photographs(32)[:1].expand(2, -1, -1, -1), ImagenetC(corruption, 4)
    first, second = part.sample(x, rng(x))
    drawn = corruption.endswith("noise") or corruption == "elastic_transform"
    assert torch.equal(first, second) is not drawn
    assert torch.equal(part.sample(x, rng(x, seed=4))[0], first) is not drawn
    assert torch.equal(part.sample(x, rng(x))[0], first)


def test_severities_share_their_random_numbers() -> None:
    x = flat(0.5, 16)
    mild, harsh = (ImagenetC("impulse_noise", s).sample(x, rng(x)) != x for s in (1, 5))
    damaged = (
        ImagenetC("impulse_noise", 1).sample(x, rng(x)).round()
        == ImagenetC("impulse_noise", 5).sample(x, rng(x)).round()
    )
    assert bool((harsh | ~mild).all())
    assert bool(damaged[mild].any())


def test_constants_fit_the_size_of_the_image() -> None:
    for side, constants in ((28, "cifar"), (84, "cifar"), (85, "imagenet"), (96, "imagenet")):
        x = flat(0.5, side)
        auto = ImagenetC("contrast").sample(x + torch.linspace(-0.2, 0.2, side), rng(x))
        told = ImagenetC("contrast", constants=constants).sample(x + torch.linspace(-0.2, 0.2, side), rng(x))
        assert torch.equal(auto, told)
    tall = torch.rand(1, 3, 300, 40, generator=torch.Generator().manual_seed(0))
    assert torch.equal(
        ImagenetC("contrast").sample(tall, rng(tall)), ImagenetC("contrast", 3, "cifar").sample(tall, rng(tall))
    )


@pytest.mark.parametrize("corruption", [name for name in FUNCTIONS if name != "saturate"])
def test_grey_images_stay_grey(corruption: str) -> None:
    x = photographs(32).mean(1, keepdim=True)
    out = ImagenetC(corruption, 2).sample(x, rng(x))
    assert out.shape == x.shape
    assert 0.001 < float((out - x).abs().mean()) < 0.4
    if corruption in ("brightness", "contrast", "pixelate", "jpeg_compression"):
        coloured = ImagenetC(corruption, 2).sample(x.expand(-1, 3, -1, -1), rng(x))
        torch.testing.assert_close(coloured, out.expand_as(coloured), atol=1.01 / 255, rtol=0)


def test_all_nineteen_have_constants_and_titles() -> None:
    assert len(CORRUPTIONS) == 15
    assert len(EXTRA) == 4
    assert set(CORRUPTIONS) | set(EXTRA) == set(IMAGENET) == set(CIFAR)
    assert ImagenetC().title == "gaussian noise 3"
    assert ImagenetC("jpeg_compression", 5, "cifar").title == "jpeg compression 5 (cifar)"


def test_bad_input_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"'gaussian_noise'\?"):
        ImagenetC("gausian_noise")
    for severity in (0, 6):
        with pytest.raises(BadValue, match=f"expected 1, 2, 3, 4 or 5, got {severity}"):
            ImagenetC("fog" if "fog" in FUNCTIONS else "contrast", severity)
    with pytest.raises(UnknownName, match="cifar"):
        ImagenetC("contrast", constants="tiny")
    with pytest.raises(Conflict, match="textures"):
        ImagenetC("contrast", textures="ice")
    x = flat(0.5, 8)
    with pytest.raises(Unsupported, match="2 channels"):
        ImagenetC().sample(x[:, :2], rng(x))
    with pytest.raises(Unsupported, match="saturate"):
        ImagenetC("saturate").sample(x[:, :1], rng(x))
    with pytest.raises(Unsupported, match="3 x 8"):
        ImagenetC("pixelate", 5, "imagenet").sample(x[:, :, :3], rng(x))
    with pytest.raises(Unsupported, match="8 x 2"):
        ImagenetC("elastic_transform").sample(x[..., :2], rng(x))


def test_jpeg_is_what_pillow_reads_back() -> None:
    x = photographs(50)  # no multiple of 8
    out = corrupted(x, "jpeg_compression", 3, "imagenet")
    for image, got in zip((255 * x).round().byte().permute(0, 2, 3, 1).numpy(), out, strict=True):
        file = io.BytesIO()
        PIL.Image.fromarray(image).save(file, "JPEG", quality=15)
        assert (np.array(PIL.Image.open(file)).transpose(2, 0, 1) == got).all()
