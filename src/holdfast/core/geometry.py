"""How a picture of any size becomes an encoder's input: scaled, cropped, and by whose arithmetic."""

from dataclasses import dataclass
from typing import Literal

from holdfast.runtime.checked import Checked, Count
from holdfast.runtime.errors import Conflict

BY_CALLER = "given by the caller"
"""Where a normalisation or a geometry comes from that no file or package states: a spec, or a Python call."""

ASSUMED = "as for the published weights"
"""Begins where both come from of a user's own weights, which say nothing of them: the network's published ones."""

BY_SHAPES = "the usual way, since pictures have different shapes and the encoder names no size"
"""Where the geometry of pictures of mixed shapes comes from."""

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
"""Filters with which pictures are scaled; all but "nearest" antialiased, unless OpenCV scales."""

Rounding = Literal["even", "down", "zero"]
"""Where the centre begins if it leaves an odd rest: half a pixel goes to the even side (torchvision, timm, OpenCLIP),
down, or towards zero (Hugging Face; these two differ where black is put around a picture)."""

Resampler = Literal["pillow", "torch", "opencv"]
"""Who scales: Pillow, or torch on bytes, as Hugging Face's processors on torchvision do, which rounds differently; or
as OpenCV's `resize` and TensorFlow's `image.resize` do by default: without antialiasing, so that a picture scaled down
loses what lies between the pixels that are looked at."""


@dataclass(frozen=True)
class Geometry(metaclass=Checked):
    """How a picture of any size becomes pixels of the encoder's size: the geometric part of preprocessing.

    Attributes:
        size: (height, width) of the encoder's input, in pixels.
        channels: 1 (grey) or 3 (RGB).
        resize: side to which the *shorter* side is scaled before the centre is cropped to `size`, or (height, width) to
            which the picture is squashed before; None: it is squashed to `size`, and nothing is cropped.
        interpolation: "nearest", "bilinear", "bicubic" or "lanczos" (not of OpenCV here), see `Interpolation`.
        source: where these values come from, for example "timm data config".
        longest: what the longer side may have at most, where `resize` says the shorter one: a thinner picture is scaled
            less. None: any length.
        rounding: where the centre begins, see `Rounding`.
        resampler: who scales, see `Resampler`.

    Raises:
        HoldfastError: sizes that are no positive whole numbers, an unknown word, a filter that the resampler lacks.

    Example:
        >>> Geometry((224, 224), resize=256).in_words
        'the shorter side to 256 pixels (bilinear), then the central 224 × 224 is cropped'
    """

    size: tuple[Count, Count]
    channels: Count = 3
    resize: Count | tuple[Count, Count] | None = None
    interpolation: Interpolation = "bilinear"
    source: str = BY_CALLER
    longest: Count | None = None
    rounding: Rounding = "even"
    resampler: Resampler = "pillow"

    def __post_init__(self) -> None:
        if (self.interpolation, self.resampler) == ("lanczos", "opencv"):
            raise Conflict(
                "Geometry: expected nearest, bilinear or bicubic of the resampler opencv, got lanczos; use pillow's"
            )

    @property
    def in_words(self) -> str:
        """What is done, such as "the shorter side to 256 pixels (bilinear), then the central 224 × 224 is cropped"."""
        size = _by(self.size)
        # Who scales is said where it is not what most do
        how = f"({self.interpolation}{' without antialiasing' if self.resampler == 'opencv' else ''})"
        # Scaled to the very size, with nothing left to crop
        if self.resize is None or self.resize == self.size:
            return f"squashed to {size} {how}"
        # Black is put around what is scaled smaller than the crop
        inside = min(self.resize) if isinstance(self.resize, tuple) else self.resize
        cropped = f"then the central {size} is cropped"
        if self.longest is not None or inside < max(self.size):
            cropped += ", black beyond the edge"
        if isinstance(self.resize, tuple):
            return f"squashed to {_by(self.resize)} {how}, {cropped}"
        most = f", the longer one to at most {self.longest}" if self.longest is not None else ""
        return f"the shorter side to {self.resize} pixels{most} {how}, {cropped}"

    def scale_size(self, height: int, width: int) -> tuple[int, int]:
        """Return the (height, width) to which a picture is scaled, before it is cropped.

        Example:
            >>> Geometry((64, 64), resize=72).scale_size(100, 151)
            (72, 108)
        """
        if self.resize is None or isinstance(self.resize, tuple):
            return self.resize or self.size
        shorter, longer = sorted((height, width))
        # The longer side is rounded down, as torchvision's `Resize` does
        short, long = self.resize, self.resize * longer // shorter
        if self.longest is not None and longer / shorter * self.resize > self.longest:
            # in floating point and in this order, as transformers.image_transforms.get_size_with_aspect_ratio
            exact = self.longest * shorter / longer
            long = longer if round(exact) == shorter else max(1, int(exact * longer / shorter))
            short = max(1, round(exact))
        return (short, long) if height <= width else (long, short)

    def corner(self, height: int, width: int) -> tuple[int, int]:
        """Return (top, left) of the centre in a scaled picture of this size; below 0 where black is put around it."""
        return self._begin(height - self.size[0]), self._begin(width - self.size[1])

    def keeps(self, height: int, width: int) -> bool:
        """Whether a picture of this size stays as it is."""
        return self.size == (height, width) == self.scale_size(height, width)

    def crops(self, height: int, width: int) -> bool:
        """Whether a part of a picture of this size is cut off, or something put around it."""
        return self.scale_size(height, width) != self.size

    def enlarges(self, height: int, width: int) -> bool:
        """Whether pixels of a picture of this size are made up."""
        high, wide = self.scale_size(height, width)
        return high > height or wide > width

    def _begin(self, rest: int) -> int:
        # `round` takes halves to the even side, `//` down, `int` towards zero
        if self.rounding == "down":
            return rest // 2
        return round(rest / 2) if self.rounding == "even" and rest > 0 else int(rest / 2)


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]} × {size[1]}"
