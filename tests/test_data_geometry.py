"""Pictures of every mode become the pixels that the usual transforms give."""

import numpy as np
import PIL.Image
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core import Geometry
from holdfast.runtime.errors import BadData, Conflict, Mismatch
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.data import Conversion, render
from holdfast.sources.data.shared.geometry import convert, standard


def noise(height, width, channels=3, seed=0):
    values = np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)
    return PIL.Image.fromarray(values.squeeze())


def geometry(size, channels=3, resize=None, interpolation="bilinear"):
    return Geometry(size, channels, resize, interpolation, "test")


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize(("size", "resize"), [((24, 24), 32), ((24, 17), 30), ((40, 40), 25), ((20, 31), None)])
@pytest.mark.parametrize("shape", [(37, 61), (61, 37), (32, 32), (25, 200)])
def test_render_is_torchvision_to_the_bit(tmp_path, shape, size, resize, interpolation):
    guard_torchvision()
    from torchvision import transforms
    from torchvision.transforms import InterpolationMode

    noise(*shape).resize(shape[::-1]).save(tmp_path / "x.jpg", quality=80)
    mode = InterpolationMode(interpolation)
    placed = [transforms.Resize(size if resize is None else resize, interpolation=mode)]
    placed += [] if resize is None else [transforms.CenterCrop(size)]
    theirs = transforms.Compose([*placed, transforms.ToTensor()])(PIL.Image.open(tmp_path / "x.jpg"))
    ours = render(PIL.Image.open(tmp_path / "x.jpg"), geometry(size, 3, resize, interpolation))
    assert ours.shape == theirs.shape
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("shape", [(37, 61), (161, 97), (24, 24), (25, 200)])
def test_torch_scales_bytes_as_torchvision_does_tensors(shape, interpolation):
    guard_torchvision()
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional

    picture, name = noise(*shape), {"nearest": "nearest-exact"}.get(interpolation, interpolation)
    values = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()
    theirs = functional.resize(values, [24, 17], interpolation=InterpolationMode(name), antialias=True)
    ours = render(picture, Geometry((24, 17), interpolation=interpolation, resampler="torch"))
    assert torch.equal(ours, theirs / 255)
    grey = render(picture.convert("L"), Geometry((24, 17), 1, interpolation=interpolation, resampler="torch"))
    assert grey.shape == (1, 24, 17)
    deep = PIL.Image.fromarray(np.array(picture.convert("L"), dtype=np.float32) / 255)
    steps = render(deep, Geometry((24, 17), 1, interpolation=interpolation, resampler="torch")) - grey
    assert float(steps.abs().mean()) < 0.01


@pytest.mark.parametrize("shape", [(37, 61), (161, 97), (24, 24), (12, 200)])
def test_without_antialiasing_a_pixel_is_made_of_the_four_around_it(shape):
    """As OpenCV and TensorFlow scale: what lies between the places that are looked at is lost."""
    values = np.array(noise(*shape), dtype=float)
    (high, wide), (rows, columns) = shape, (24, 17)
    at = [np.clip((np.arange(n) + 0.5) * side / n - 0.5, 0, side - 1) for n, side in ((rows, high), (columns, wide))]
    low = [np.floor(places).astype(int) for places in at]
    top = [np.minimum(floor + 1, side - 1) for floor, side in zip(low, shape, strict=True)]
    y, x = (at[0] - low[0])[:, None, None], (at[1] - low[1])[None, :, None]
    upper, lower = (values[r][:, low[1]] * (1 - x) + values[r][:, top[1]] * x for r in (low[0], top[0]))
    ours = 255 * render(noise(*shape), Geometry((rows, columns), resampler="opencv")).permute(1, 2, 0).numpy()
    assert np.abs(ours - (upper * (1 - y) + lower * y)).max() < 0.501
    cv2 = pytest.importorskip("cv2")
    filters = {"nearest": cv2.INTER_NEAREST, "bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC}
    for name, number in filters.items():
        theirs = cv2.resize(np.array(noise(*shape)), (columns, rows), interpolation=number)
        ours = render(noise(*shape), Geometry((rows, columns), interpolation=name, resampler="opencv"))
        assert np.abs(255 * ours.permute(1, 2, 0).numpy() - theirs).max() <= 1.01, name  # it computes in 11 bits


def test_lanczos_is_not_scaled_without_antialiasing():
    with pytest.raises(Conflict) as error:
        Geometry((8, 8), interpolation="lanczos", resampler="opencv")
    assert "expected nearest, bilinear or bicubic" in str(error.value)


@given(
    side=st.tuples(st.integers(2, 90), st.integers(2, 90)),
    crop=st.tuples(st.integers(2, 90), st.integers(2, 90)),
)
@settings(max_examples=100, deadline=None)
def test_centres_begin_where_libraries_let_them(side, crop):
    """Cut out where there is more, put into black where there is less, in every mixture of both."""
    guard_torchvision()
    transforms = pytest.importorskip("transformers.image_transforms")
    from torchvision.transforms.functional import center_crop
    from transformers import CLIPImageProcessor
    from transformers.image_utils import SizeDict

    picture = noise(*side)
    values = np.array(picture).transpose(2, 0, 1)
    fast = CLIPImageProcessor().center_crop(torch.from_numpy(values), SizeDict(height=crop[0], width=crop[1]))
    theirs = {
        "even": torch.from_numpy(np.array(center_crop(picture, list(crop)))).permute(2, 0, 1),
        "down": torch.from_numpy(transforms.center_crop(values, crop)),
        "zero": fast,
    }
    for rounding, expected in theirs.items():
        ours = render(picture, Geometry(crop, resize=side, rounding=rounding))
        assert torch.equal(ours, expected / 255), rounding


@given(side=st.tuples(st.integers(1, 400), st.integers(1, 400)), short=st.integers(1, 200), more=st.integers(0, 300))
@settings(max_examples=300, deadline=None)
def test_sizes_are_those_of_transformers(side, short, more):
    guard_torchvision()
    transforms = pytest.importorskip("transformers.image_transforms")
    plain = transforms.get_size_with_aspect_ratio(side, short, None)
    assert Geometry((8, 8), resize=short).scale_size(*side) == plain
    limited = transforms.get_size_with_aspect_ratio(side, short, short + more)
    assert Geometry((8, 8), resize=short, longest=short + more).scale_size(*side) == tuple(max(1, n) for n in limited)


def test_render_is_timms_evaluation_transform(tmp_path):
    guard_torchvision()
    from timm.data.transforms_factory import create_transform

    noise(300, 411).save(tmp_path / "x.jpg")
    picture = PIL.Image.open(tmp_path / "x.jpg")
    theirs = create_transform(
        (3, 224, 224), interpolation="bicubic", crop_pct=0.875, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)
    )(picture)
    assert torch.equal(render(picture, geometry((224, 224), 3, 256, "bicubic")), theirs)


def test_real_photos_are_rendered_as_torchvision_does(shared):
    guard_torchvision()
    from torchvision.models import ResNet18_Weights

    preset = ResNet18_Weights.IMAGENET1K_V1.transforms(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    for file in sorted((shared / "data" / "photos").iterdir())[:5]:
        picture = PIL.Image.open(file)
        assert torch.equal(render(picture, geometry((224, 224), 3, 256)), preset(picture))


def test_exif_turns_the_picture(tmp_path):
    picture = noise(20, 30)
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # shown turned by 90 degrees clockwise
    picture.save(tmp_path / "x.png", exif=exif)
    pixels = render(PIL.Image.open(tmp_path / "x.png"), None)
    assert torch.equal(pixels, render(picture.transpose(PIL.Image.Transpose.ROTATE_270), None))
    assert pixels.shape == (3, 30, 20)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA", "P+t", "L+t", "RGB+t", "RGBa"])
def test_what_is_transparent_shows_white(mode):
    colour = {"L": 60, "LA": (60, 0), "RGBA": (60, 0, 0, 0)}
    if mode == "P+t":
        picture = PIL.Image.new("P", (3, 2), 0)
        picture.putpalette([60, 0, 0, 0, 0, 0])
        picture.info["transparency"] = 0
    elif mode == "L+t":
        picture = PIL.Image.new("L", (3, 2), 60)
        picture.info["transparency"] = 60
    elif mode == "RGB+t":
        picture = PIL.Image.new("RGB", (3, 2), (60, 0, 0))
        picture.info["transparency"] = (60, 0, 0)
    elif mode == "PA":
        picture = PIL.Image.new("RGBA", (3, 2), (60, 0, 0, 0)).convert("PA")
    else:
        picture = PIL.Image.new("RGBA" if mode == "RGBa" else mode, (3, 2), colour.get(mode, (60, 0, 0, 0)))
        picture = picture.convert(mode)
    pixels = render(picture, None)
    assert torch.equal(pixels, torch.ones_like(pixels))
    assert pixels.shape[0] == (1 if mode in ("LA", "L+t") else 3)


def test_half_transparent_is_half_white():
    pixels = render(PIL.Image.new("RGBA", (1, 1), (0, 0, 0, 51)), None)
    assert torch.allclose(pixels, torch.full((3, 1, 1), 0.8))


def test_sixteen_bits_keep_their_precision(tmp_path):
    values = np.array([[0, 1, 255, 256], [257, 32768, 65534, 65535]], dtype=np.uint16)
    PIL.Image.fromarray(values).save(tmp_path / "x.png")
    opened = PIL.Image.open(tmp_path / "x.png")
    assert opened.mode.startswith("I")
    expected = torch.tensor(values.astype(np.float64) / 65535, dtype=torch.float32)
    assert torch.equal(render(opened, None)[0], expected)
    assert torch.equal(render(opened, geometry((2, 4))), expected.expand(3, -1, -1))
    big = PIL.Image.frombytes("I;16B", (4, 2), values.astype(">u2").tobytes())
    assert torch.equal(render(big, None)[0], expected)


def test_an_integer_picture_beyond_sixteen_bits_is_refused():
    with pytest.raises(BadData, match="16-bit"):
        render(PIL.Image.fromarray(np.array([[70000]], dtype=np.int32)), None)


def test_grey_one_bit_palette_and_cmyk():
    assert torch.equal(render(PIL.Image.new("1", (2, 2), 1), None), torch.ones(1, 2, 2))
    cmyk = render(PIL.Image.new("CMYK", (1, 1), (0, 255, 255, 0)), None)
    assert torch.equal(cmyk.flatten(), torch.tensor([1.0, 0.0, 0.0]))
    palette = PIL.Image.new("P", (1, 1), 1)
    palette.putpalette([0, 0, 0, 255, 0, 51])
    assert torch.allclose(render(palette, None).flatten(), torch.tensor([1.0, 0.0, 0.2]))


def test_a_mode_without_rgb_form_says_so():
    with pytest.raises(BadData, match="La"):
        render(PIL.Image.new("LA", (2, 2)).convert("La"), None)


def test_a_hair_of_a_picture_is_refused_instead_of_filling_the_memory():
    with pytest.raises(BadData, match="thin"):
        render(PIL.Image.new("L", (30000, 1)), geometry((224, 224), 3, 256))


@given(
    mode=st.sampled_from(["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "F", "YCbCr", "HSV"]),
    have=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    channels=st.sampled_from([1, 3]),
    resize=st.one_of(st.none(), st.integers(1, 50)),
    interpolation=st.sampled_from(["nearest", "bilinear", "bicubic", "lanczos"]),
)
@settings(max_examples=150, deadline=None)
def test_every_picture_fits_every_geometry(mode, have, size, channels, resize, interpolation):
    if mode in ("I;16", "F"):
        values = np.random.default_rng(0).random(have, dtype=np.float32)
        picture = PIL.Image.fromarray((values * 65535).astype(np.uint16) if mode == "I;16" else values)
    else:
        picture = noise(*have).resize(have[::-1]).convert("RGB").convert("L" if mode == "LA" else "RGB").convert(mode)
    pixels = render(picture, geometry(size, channels, resize, interpolation))
    assert pixels.shape == (channels, *size)
    assert pixels.dtype == torch.float32
    assert pixels.min() >= 0
    assert pixels.max() <= 1
    again = standard(standard(picture))
    assert again.mode == standard(picture).mode
    assert again.tobytes() == standard(picture).tobytes()


# --- arrays ---------------------------------------------------------------------------------------


def test_arrays_that_fit_pass_unchanged():
    pixels = torch.rand(3, 8, 8)
    assert torch.equal(convert(pixels, Conversion(), geometry((8, 8))), pixels)
    assert torch.equal(convert(pixels, Conversion(), None), pixels)
    assert torch.equal(convert(pixels, Conversion(size=8, channels=3), None), pixels)


def test_arrays_that_do_not_fit_name_the_option():
    with pytest.raises(Mismatch, match=r"\?channels=3"):
        convert(torch.rand(1, 8, 8), Conversion(), geometry((8, 8)))
    with pytest.raises(Mismatch, match=r"\?size=16x8"):
        convert(torch.rand(3, 8, 8), Conversion(), geometry((16, 8)))


def test_an_asked_size_that_the_encoder_did_not_ask_for_is_kept():
    pixels = torch.rand(3, 8, 8)
    assert torch.equal(convert(pixels, Conversion(size=8), geometry((224, 224))), pixels)


def test_grey_and_rgb_arrays_convert_like_pictures():
    pixels = render(noise(9, 7), None)
    ours = convert(pixels, Conversion(channels=1), None)
    theirs = render(noise(9, 7), geometry((9, 7), 1))
    assert ours.shape == (1, 9, 7)
    assert (ours - theirs).abs().max() <= 0.5 / 255 + 1e-6  # Pillow rounds luma to 8 bits
    assert torch.equal(convert(ours, Conversion(channels=3), None), ours.expand(3, -1, -1))


def test_resized_arrays_are_resized_like_pictures():
    picture = noise(30, 20)
    ours = convert(render(picture, None), Conversion(size=10), None)
    theirs = render(picture, geometry((10, 10), 3, 10))
    assert ours.shape == (3, 10, 10)
    assert (ours - theirs).abs().max() <= 1.01 / 255
    assert convert(render(picture, None), Conversion(size=(5, 7)), None).shape == (3, 5, 7)
