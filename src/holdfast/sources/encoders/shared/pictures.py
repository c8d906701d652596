"""The words of a spec, or of a file's metadata, that say how pictures become an encoder's input."""

from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from holdfast.core.geometry import Geometry, Interpolation, Resampler
from holdfast.core.source_spec import Options, one_of, positive, sides, take
from holdfast.runtime.errors import BadValue, Conflict, HoldfastError, Missing, UnknownName

SQUASH: Literal["squash"] = "squash"

PICTURES = ("size", "resize", "crop", "interpolation", "resampler")
"""All words about pictures."""


@dataclass(frozen=True)
class PictureWords:
    """How pictures become the input, as far as somebody says; None: not a word of it.

    Attributes:
        size: (height, width) of the input, from `size=` or `crop=`.
        resize: the length to which a picture's shorter side is scaled before its centre is cropped to `size`; (height,
            width) to which the picture is squashed before; or "squash": the whole picture is brought to `size`.
        interpolation: the filter of both.
        resampler: who scales, see `Resampler`.
        given: the words as they were written, such as "resize=256&crop=224".
    """

    size: tuple[int, int] | None = None
    resize: int | tuple[int, int] | Literal["squash"] | None = None
    interpolation: Interpolation | None = None
    resampler: Resampler | None = None
    given: str = ""


def picture_words(options: Options) -> PictureWords:
    """Take the words about pictures, `PICTURES`.

    Raises:
        HoldfastError: a value that cannot be read, or words that contradict each other.
    """
    given = [f"{name}={options[name]}" for name in PICTURES if name in options]
    size, crop = take(options, "size", _size, None), take(options, "crop", _size, None)
    resize = take(options, "resize", _resize, None)
    filter_name = take(options, "interpolation", _filter, None)
    resampler = take(options, "resampler", one_of(*get_args(Resampler)), None)
    words = PictureWords(size or crop, resize, filter_name, cast(Resampler | None, resampler), "&".join(given))
    if size and crop:
        problem = "size= and crop= both say how large the input is; leave out size= where pictures are cropped"
    elif crop and resize == SQUASH:
        problem = "resize=squash crops nothing; give size= in place of crop="
    elif crop and resize is None:
        problem = (
            "crop= cuts the centre out of a picture whose shorter side has the length resize=; give both, as in "
            "resize=256&crop=224, or size= alone to keep the source's own share"
        )
    else:
        _check_inside(words.size, resize, options.spec)
        return words
    raise BadValue(f"spec {options.spec!r}: {problem}")


def override_geometry(
    geometry: Geometry | None, words: PictureWords, shape: tuple[int, int, int], where: str, spec: str
) -> Geometry | None:
    """Return a geometry in which the words hold, and the rest is as it was.

    A new size alone keeps the share that is cropped. Without any geometry, `resize=` begins one (bilinear).

    Args:
        geometry: the source's own, or None where it has none.
        words: what is said over and above.
        shape: (channels, height, width) of the input, where neither says its size.
        where: who says the words, for the record.
        spec: who asks, for errors.

    Raises:
        HoldfastError: words that need more of a geometry than there is, a crop larger than what it is cut from.
    """
    if words == PictureWords():
        return geometry
    if geometry is None and words.resize is None:
        if words.interpolation is None and words.resampler is None:
            return None
        raise Missing(
            f"{spec}: {words.given} is not enough, for the source says nothing of how pictures become the input; "
            "give resize=256&crop=224, or resize=squash"
        )
    # what is not said stays
    before = geometry or Geometry(shape[1:], shape[0], None, "bilinear", "")
    # The user's size, the source's, or the shape of the input
    size = words.size or (before.size if geometry else shape[1:])
    longest, resize = before.longest, _scale_resize(before, size)
    # A limit of the longer side grows with the input
    if longest is not None:
        longest = round(longest * max(size) / max(before.size))
    if words.resize is not None:
        # A resize of the user's own has no such limit
        longest, resize = None, None if words.resize == SQUASH else words.resize
        _check_inside(size, words.resize, spec)
    whole = words.size and words.resize and words.interpolation
    source = f"{words.given} {where}"
    # Who says which part, for the record
    if not whole:
        source += f"; else {before.source}" if geometry else ", bilinear"
    filter_name = words.interpolation or before.interpolation
    return replace(
        before,
        size=size,
        resize=resize,
        interpolation=filter_name,
        source=source,
        longest=longest,
        resampler=words.resampler or before.resampler,
    )


def _scale_resize(before: Geometry, size: tuple[int, int]) -> int | tuple[int, int] | None:
    """Return what a picture is scaled to before `size` is cropped, so that the same share is kept as before."""
    factors = [new / old for new, old in zip(size, before.size, strict=True)]
    if isinstance(before.resize, tuple):
        # By the side that grows most, so that the crop fits into the scaled picture
        return round(before.resize[0] * factors[0]), round(before.resize[1] * factors[1])
    return before.resize and round(before.resize * max(factors))


def interpolation(name: str) -> Interpolation:
    """Return the name of a filter that `Geometry` knows.

    Raises:
        HoldfastError: another one, such as timm's "random".
    """
    match name:
        case "nearest" | "bilinear" | "bicubic" | "lanczos":
            return name
    raise UnknownName(f"interpolation {name!r} is none of nearest, bilinear, bicubic, lanczos")


def _check_inside(size: tuple[int, int] | None, resize: int | tuple[int, int] | str | None, spec: str) -> None:
    if size is None or resize is None or isinstance(resize, str):
        return
    high, wide = size
    # The crop would reach beyond the picture
    if isinstance(resize, int) and resize < max(size):
        has, more = f"whose shorter side is resized to {resize}", f"{max(size)}"
    elif isinstance(resize, tuple) and (resize[0] < high or resize[1] < wide):
        has, more = f"squashed to {resize[0]}x{resize[1]}", f"{high}x{wide}"
    else:
        return
    raise Conflict(
        f"{spec}: a picture {has} has no {high}x{wide} pixels to crop; give resize={more} or more, or a smaller crop"
    )


def _filter(text: str) -> Interpolation:
    try:
        return interpolation(text)
    except HoldfastError:
        raise ValueError("expected nearest, bilinear, bicubic or lanczos") from None


def _resize(text: str) -> int | tuple[int, int] | Literal["squash"]:
    if text == SQUASH:
        return SQUASH
    try:
        return _size(text) if "x" in text else positive(text)
    except ValueError:
        raise ValueError(
            "expected the pixels of the shorter side, such as 256, HxW to squash to, or the word squash"
        ) from None


def _size(text: str) -> tuple[int, int]:
    pixels = list(sides(text, "positive pixels, H or HxW"))
    if len(pixels) > 2:
        raise ValueError("expected positive pixels, H or HxW")
    return pixels[0], pixels[-1]
