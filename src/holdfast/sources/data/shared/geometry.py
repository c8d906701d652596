"""From a picture of any size and mode to the pixels of an encoder: the geometric part of preprocessing."""

from dataclasses import dataclass

import numpy as np
import PIL.ExifTags
import PIL.Image
import PIL.ImageOps
import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn import functional as F

from holdfast.core import Geometry
from holdfast.core.geometry import Interpolation
from holdfast.core.image_source import GREY
from holdfast.runtime.errors import BadData, Mismatch

Pixels = Float[Tensor, "channel height width"]

_RESAMPLING = {
    "nearest": PIL.Image.Resampling.NEAREST,
    "bilinear": PIL.Image.Resampling.BILINEAR,
    "bicubic": PIL.Image.Resampling.BICUBIC,
    "lanczos": PIL.Image.Resampling.LANCZOS,
}
_MOST_PIXELS = 2**28
_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, as Pillow's RGB -> L


@dataclass(frozen=True)
class Conversion:
    """What the user asked for, over and above what an encoder's geometry does to pictures.

    Attributes:
        size: height and width in pixels: one number scales the shorter side to it and crops the centre square,
            two numbers squash; bilinear, so that every encoder sees the same images. None: as the encoder asks.
        channels: 1 converts to grey (BT.601 luma), 3 to RGB. None: as the encoder asks.
    """

    size: int | tuple[int, int] | None = None
    channels: int | None = None


def standard(picture: PIL.Image.Image) -> PIL.Image.Image:
    """Return the picture as a viewer shows it, in mode L, RGB, or F with values in [0, 1].

    Turned as EXIF says, palettes resolved, transparency laid on white. 16-bit grey becomes F = value / 65535.
    Pillow itself reads 16-bit *colour* as 8-bit. The first frame of an animation counts. Colour profiles are
    not applied, as in torchvision, timm and transformers.

    Raises:
        HoldfastError: a colour mode that has no conversion to RGB, or 32-bit integers that are not 16-bit.
    """
    # First turned: height and width are those that a viewer shows
    if picture.getexif().get(PIL.ExifTags.Base.Orientation, 1) != 1:
        picture = PIL.ImageOps.exif_transpose(picture)
    # "I" and "I;16", which Pillow's own conversion would clip to 8 bits
    if picture.mode.startswith("I"):
        values = np.asarray(picture, dtype=np.float32)
        if values.min(initial=0) < 0 or values.max(initial=0) > 65535:
            raise BadData("expected 16-bit values (0 to 65535) in an integer picture, got others")
        return PIL.Image.fromarray(values / np.float32(65535))
    if picture.mode == "F":
        return picture
    grey = picture.mode in GREY
    try:
        # To drop the alpha channel would show whatever colour transparent pixels have
        if picture.has_transparency_data:
            picture = picture.convert("RGBA")
            picture = PIL.Image.alpha_composite(PIL.Image.new("RGBA", picture.size, "white"), picture)
        wanted = "L" if grey else "RGB"
        return picture if picture.mode == wanted else picture.convert(wanted)  # which would copy
    except ValueError as error:
        raise BadData(f"mode {picture.mode} has no conversion to RGB; convert the file to RGB") from error


def render(picture: PIL.Image.Image, geometry: Geometry | None) -> Pixels:
    """Return the pixels in [0, 1] that an encoder of this geometry sees of a picture of any size and mode.

    Equal, to the bit, to torchvision's Resize, CenterCrop and ToTensor on an ordinary RGB picture, or to other
    libraries' where the geometry says so. Without geometry the picture keeps its size and is grey or RGB as it comes.

    Raises:
        HoldfastError: see `standard`.
    """
    return fit(standard(picture), Conversion(), geometry)


def fit(picture: PIL.Image.Image, conversion: Conversion, geometry: Geometry | None) -> Pixels:
    """Return the pixels of a `standard` picture, as the user asked or else as the encoder's geometry says."""
    channels = conversion.channels or (geometry.channels if geometry else None)
    mode = {1: "L", 3: "RGB", None: picture.mode}[channels]
    if picture.mode not in ("F", mode):  # F has no RGB form: its one channel is repeated below
        picture = picture.convert(mode)
    pixels = _pixels(_place(picture, placement(conversion, geometry)))
    return pixels.expand(3, -1, -1).contiguous() if (channels, pixels.shape[0]) == (3, 1) else pixels


def convert(pixels: Pixels, conversion: Conversion, geometry: Geometry | None) -> Float[Tensor, "c h w"]:
    """Return pixels that came as an array, converted only as far as the user asked.

    Raises:
        HoldfastError: a size or channels that do not fit the encoder's geometry and were not asked to change.
    """
    channels = conversion.channels
    # channels: luma of colours, or one grey for all three
    if channels == 1 and pixels.shape[0] == 3:
        # Σ_c w_c x_c, [3, H, W] to [1, H, W]; weights are rounded, so the sum may leave [0, 1]
        pixels = torch.einsum("chw,c->hw", pixels, pixels.new_tensor(_LUMA)).clamp_(0, 1).unsqueeze(0)
    elif channels == 3 and pixels.shape[0] == 1:
        pixels = pixels.expand(3, -1, -1)  # a view, which `contiguous` or resizing copies
    elif channels is None and geometry is not None and pixels.shape[0] != geometry.channels:
        raise Mismatch(
            f"expected {geometry.channels} channels ({geometry.source}), got {pixels.shape[0]}; "
            f"add ?channels={geometry.channels} to the data spec to convert them"
        )
    if (wanted := placement(conversion, None)) is not None:
        return resize_channels(pixels, wanted)
    # arrays are not resized unasked
    height, width = pixels.shape[1:]
    if geometry is not None and (height, width) != geometry.size:
        high, wide = geometry.size
        raise Mismatch(
            f"expected {high}x{wide} pixels ({geometry.source}), got {height}x{width}; add ?size={high}x{wide} to the "
            f"data spec to resize arrays, or ?size={height}x{width} if the encoder takes them as they are"
        )
    return pixels.contiguous()


def placement(conversion: Conversion, geometry: Geometry | None) -> Geometry | None:
    """Return how images get the size that the user asked for, or else the encoder's; None: they keep theirs."""
    if isinstance(size := conversion.size, int):
        return Geometry((size, size), resize=size)
    return geometry if size is None else Geometry(size)


def resize_channels(pixels: Pixels, wanted: Geometry) -> Float[Tensor, "c h w"]:
    """Return pixels in another size, each channel by itself and without rounding to levels."""
    # Mode F, one plane each: Pillow knows no floats in colour
    return torch.cat([_pixels(_place(PIL.Image.fromarray(plane), wanted)) for plane in pixels.numpy()])


def resize_picture(pixels: Pixels, wanted: Geometry) -> Float[Tensor, "c h w"]:
    """Return pixels in another size, rounded to 8 bits as those of a picture are where they are whole levels."""
    # Whole levels come back to the bit, so they are resized as Pillow resizes bytes
    levels = pixels.mul(255).round_().to(torch.uint8)
    if not torch.equal(levels.to(torch.float32).div(255), pixels):
        return resize_channels(pixels, wanted)
    values = levels.permute(1, 2, 0).numpy() if len(levels) == 3 else levels[0].numpy()
    return _pixels(_place(PIL.Image.fromarray(np.ascontiguousarray(values)), wanted))


def _place(picture: PIL.Image.Image, wanted: Geometry | None) -> PIL.Image.Image:
    """Scale a picture and crop its centre."""
    if wanted is None:
        return picture
    high, wide = wanted.scale_size(picture.height, picture.width)
    # The longer side of a thin picture would take all memory
    if high * wide > _MOST_PIXELS:
        raise BadData(
            f"a picture of {picture.width}x{picture.height} is too thin: scaled to a shorter side of "
            f"{min(high, wide)} it would have {high * wide:.0f} pixels; crop it"
        )
    if picture.size != (wide, high):
        picture = _SCALE[wanted.resampler](picture, (high, wide), wanted.interpolation)
    top, left = wanted.corner(high, wide)
    box = (left, top, left + wanted.size[1], top + wanted.size[0])
    return picture if box == (0, 0, *picture.size) else picture.crop(box)  # beyond the edge Pillow fills with black


def _by_pillow(picture: PIL.Image.Image, size: tuple[int, int], interpolation: Interpolation) -> PIL.Image.Image:
    height, width = size
    return picture.resize((width, height), _RESAMPLING[interpolation])


def _by_torch(picture: PIL.Image.Image, size: tuple[int, int], interpolation: Interpolation) -> PIL.Image.Image:
    """Scale as torchvision does a tensor: bytes stay bytes between both directions, in another order than Pillow's."""
    # [1, C, H, W] of bytes
    values = _planes(picture).contiguous()[None]
    if interpolation == "nearest":
        scaled = F.interpolate(values, size, mode="nearest-exact")[0]
    else:
        scaled = F.interpolate(values, size, mode=interpolation, align_corners=False, antialias=True)[0]
    # [H, W, C], or [H, W] for grey
    return PIL.Image.fromarray((scaled.permute(1, 2, 0).contiguous() if len(scaled) == 3 else scaled[0]).numpy())


def _by_opencv(picture: PIL.Image.Image, size: tuple[int, int], interpolation: Interpolation) -> PIL.Image.Image:
    """Scale as OpenCV's `resize` does: each new pixel is a mean of the few around its place, however far apart."""
    values, mode = _planes(picture)[None], interpolation
    # Corners of the outer pixels lie on each other, as there
    scaled = F.interpolate(values.float(), size, mode=mode, align_corners=None if mode == "nearest" else False)[0]
    if values.dtype == torch.uint8:
        # Halves up, for bytes are not negative
        scaled = scaled.add(0.5).floor().clamp(0, 255).to(torch.uint8)
    return PIL.Image.fromarray((scaled.permute(1, 2, 0).contiguous() if len(scaled) == 3 else scaled[0]).numpy())


_SCALE = {"pillow": _by_pillow, "torch": _by_torch, "opencv": _by_opencv}


def _planes(picture: PIL.Image.Image) -> Shaped[Tensor, "channel height width"]:
    """Return a picture of mode L, RGB or F as a tensor of its own numbers."""
    values = torch.from_numpy(np.array(picture))  # a copy, for what Pillow holds is read-only
    return values.unsqueeze(0) if values.ndim == 2 else values.permute(2, 0, 1)


def _pixels(picture: PIL.Image.Image) -> Pixels:
    """Return a picture of mode L, RGB or F as a tensor in [0, 1]."""
    values = _planes(picture)
    if values.dtype == torch.uint8:
        return values.to(torch.float32).div(255).contiguous()
    return values.clamp(0, 1)  # resizing with negative lobes leaves [0, 1] by a little
