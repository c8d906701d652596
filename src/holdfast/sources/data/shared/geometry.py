"""From a picture of any size and mode to the pixels of an encoder: the geometric part of preprocessing."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import PIL.ExifTags
import PIL.Image
import PIL.ImageOps
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Geometry
from holdfast.core.image_source import GREY
from holdfast.runtime.errors import HoldfastError

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
    if picture.getexif().get(PIL.ExifTags.Base.Orientation, 1) != 1:
        picture = PIL.ImageOps.exif_transpose(picture)
    if picture.mode.startswith("I"):
        values = np.asarray(picture, dtype=np.float32)
        if values.min(initial=0) < 0 or values.max(initial=0) > 65535:
            raise HoldfastError("expected 16-bit values (0 to 65535) in an integer picture, got others")
        return PIL.Image.fromarray(values / np.float32(65535))
    if picture.mode == "F":
        return picture
    grey = picture.mode in GREY
    try:
        if picture.has_transparency_data:
            picture = picture.convert("RGBA")
            picture = PIL.Image.alpha_composite(PIL.Image.new("RGBA", picture.size, "white"), picture)
        wanted = "L" if grey else "RGB"
        return picture if picture.mode == wanted else picture.convert(wanted)  # which would copy
    except ValueError as error:
        raise HoldfastError(f"mode {picture.mode} has no conversion to RGB; convert the file to RGB") from error


def render(picture: PIL.Image.Image, geometry: Geometry | None) -> Pixels:
    """Return the pixels in [0, 1] that an encoder of this geometry sees of a picture of any size and mode.

    Equal, to the bit, to torchvision's Resize, CenterCrop and ToTensor on an ordinary RGB picture. Without
    geometry the picture keeps its size and is grey or RGB as it comes.

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
        pixels = torch.einsum("chw,c->hw", pixels, pixels.new_tensor(_LUMA)).clamp_(0, 1).unsqueeze(0)
    elif channels == 3 and pixels.shape[0] == 1:
        pixels = pixels.expand(3, -1, -1)
    elif channels is None and geometry is not None and pixels.shape[0] != geometry.channels:
        raise HoldfastError(
            f"expected {geometry.channels} channels ({geometry.source}), got {pixels.shape[0]}; "
            f"add ?channels={geometry.channels} to the data spec to convert them"
        )
    if (wanted := placement(conversion, None)) is not None:
        return placed(pixels, wanted)
    # arrays are not resized unasked
    height, width = pixels.shape[1:]
    if geometry is not None and (height, width) != geometry.size:
        high, wide = geometry.size
        raise HoldfastError(
            f"expected {high}x{wide} pixels ({geometry.source}), got {height}x{width}; add ?size={high}x{wide} to the "
            f"data spec to resize arrays, or ?size={height}x{width} if the encoder takes them as they are"
        )
    return pixels.contiguous()


class Placement(NamedTuple):
    """How pixels get another size: scaled so that the shorter side is `resize` and cropped, or squashed where None.

    Attributes:
        size: (height, width) in the end.
        resize: what the shorter side is scaled to before the centre crop; None: no crop.
        resampling: the filter, antialiased.
    """

    size: tuple[int, int]
    resize: int | None
    resampling: PIL.Image.Resampling

    def keeps(self, height: int, width: int) -> bool:
        """Whether an image of this size stays as it is."""
        return self.size == (height, width) and self.resize in (None, min(height, width))

    def enlarges(self, height: int, width: int) -> bool:
        """Whether pixels of an image of this size are made up."""
        if self.resize is None:
            return height < self.size[0] or width < self.size[1]
        return min(height, width) < self.resize

    def crops(self, height: int, width: int) -> bool:
        """Whether a part of an image of this size is cut off."""
        return self.resize is not None and (height != width or self.size != (self.resize, self.resize))


def placement(conversion: Conversion, geometry: Geometry | None) -> Placement | None:
    """Return how images get the size that the user asked for, or else the encoder's; None: they keep theirs."""
    if isinstance(size := conversion.size, int):
        return Placement((size, size), size, PIL.Image.Resampling.BILINEAR)
    if size is not None:
        return Placement(size, None, PIL.Image.Resampling.BILINEAR)
    if geometry is None:
        return None
    return Placement(geometry.size, geometry.resize, _RESAMPLING[geometry.interpolation])


def placed(pixels: Pixels, wanted: Placement) -> Float[Tensor, "c h w"]:
    """Return pixels in another size, each channel by itself and without rounding to levels."""
    return torch.cat([_pixels(_place(PIL.Image.fromarray(plane), wanted)) for plane in pixels.numpy()])


def repainted(pixels: Pixels, wanted: Placement) -> Float[Tensor, "c h w"]:
    """Return pixels in another size, rounded to 8 bits as those of a picture are where they are whole levels."""
    levels = pixels.mul(255).round_().to(torch.uint8)
    if not torch.equal(levels.to(torch.float32).div(255), pixels):
        return placed(pixels, wanted)
    values = levels.permute(1, 2, 0).numpy() if len(levels) == 3 else levels[0].numpy()
    return _pixels(_place(PIL.Image.fromarray(np.ascontiguousarray(values)), wanted))


def _place(picture: PIL.Image.Image, wanted: Placement | None) -> PIL.Image.Image:
    """Scale the shorter side to `resize` and crop the centre, or squash where it is None."""
    if wanted is None:
        return picture
    (high, wide), resize, resampling = wanted
    if resize is None:
        return picture if picture.size == (wide, high) else picture.resize((wide, high), resampling)
    short = min(picture.size)
    scaled = (resize * picture.width // short, resize * picture.height // short)
    if scaled[0] * scaled[1] > _MOST_PIXELS:
        raise HoldfastError(
            f"a picture of {picture.width}x{picture.height} is too thin: scaled to a shorter side of {resize} it would "
            f"have {scaled[0] * scaled[1]:.0f} pixels; crop it"
        )
    if picture.size != scaled:
        picture = picture.resize(scaled, resampling)
    left, top = _offset(scaled[0], wide), _offset(scaled[1], high)
    return picture.crop((left, top, left + wide, top + high))  # beyond the edge Pillow fills with black


def _offset(have: int, want: int) -> int:
    """Return the start of a centre crop: rounded half to even, or padded, as torchvision's CenterCrop does."""
    return round((have - want) / 2) if have >= want else -((want - have) // 2)


def _pixels(picture: PIL.Image.Image) -> Pixels:
    """Return a picture of mode L, RGB or F as a tensor in [0, 1]."""
    values = torch.from_numpy(np.array(picture))
    values = values.unsqueeze(0) if values.ndim == 2 else values.permute(2, 0, 1)
    if values.dtype == torch.uint8:
        return values.to(torch.float32).div(255).contiguous()
    return values.clamp(0, 1)  # resizing with negative lobes leaves [0, 1] by a little
