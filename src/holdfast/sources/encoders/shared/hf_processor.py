"""What a Hugging Face image processor does to pictures: found out on pictures, with its configuration as a guess."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple, get_args

import numpy as np
import PIL.Image
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core.geometry import Geometry, Interpolation, Resampler, Rounding
from holdfast.core.normalisation import LARGEST
from holdfast.runtime.errors import HoldfastError, Unsupported
from holdfast.sources.encoders.shared.assemble import Preprocessing
from holdfast.sources.encoders.shared.original import BEYOND, Original, equal, sizes
from holdfast.sources.encoders.shared.pictures import interpolation

_RESAMPLE = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # PIL.Image.Resampling
_PLAIN = ((0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255))
_LUMA = (0.299, 0.587, 0.114)
_ALIKE = 1e-4
"""Share by which numbers of a configuration may differ from what is measured in float32."""


class _Colours(NamedTuple):
    """What is subtracted from channels of pixels in [0, 1] and what they are divided by, in the order of the pixels."""

    mean: list[float]
    std: list[float]
    reversed: bool


def preprocessing(processor: Any, shape: tuple[int, int, int]) -> Preprocessing:
    """Return the mean and std of [0, 1] pixels, the order of channels and the geometry that give a processor's pixels.

    Colours are read off plain pictures, whatever the configuration calls what is done to them. The geometry is the
    first of those which the configuration may mean that makes of noise what the processor makes of it. What cannot be
    repeated in this way is left out, and `problem` says why.

    Args:
        processor: of transformers, or code of a repository.
        shape: (channels, height, width) of the model's input, where the processor does not give one.
    """
    name = describe_processor(processor)
    config: Mapping[str, Any] = getattr(processor, "to_dict", dict)()
    original = Original(name, partial(pixel_values, processor))
    nothing = Preprocessing(None, None, name, shape, None)
    try:
        colours, shape = _colours(original, config)
    except HoldfastError as error:
        return replace(nothing, problem=f"{name} {error}")
    found = Preprocessing(*colours[:2], name, shape, None, colours.reversed)
    try:
        return replace(found, geometry=_geometry(original, config, found))
    except HoldfastError as error:
        return replace(found, problem=f"{name} {error}")


def describe_processor(processor: Any) -> str:
    """Return the class of a processor, and what it computes with where it says so: its pixels depend on both."""
    backend, name = getattr(processor, "backend", None), type(processor).__name__
    return f"{name} ({backend})" if isinstance(backend, str) else name


def pixel_values(processor: Any, picture: PIL.Image.Image) -> Float[Tensor, "channel height width"]:
    """Return what a processor makes of one picture.

    Raises:
        HoldfastError: something else than one image; its text goes on after the processor's name.
    """
    outputs = processor(images=picture, return_tensors="pt")
    if not isinstance(outputs, Mapping) or "pixel_values" not in outputs:
        given = ", ".join(outputs) if isinstance(outputs, Mapping) else type(outputs).__name__
        raise Unsupported(f"gives {given} of a picture and no pixel_values")
    values = outputs["pixel_values"]
    if len(values) != 1:
        raise Unsupported(f"cuts a picture into {len(values)} pieces")
    image = torch.as_tensor(values[0]).float()
    if image.ndim != 3 or image.shape[0] not in (1, 3):
        raise Unsupported(f"gives {list(image.shape)} of a picture and not [channel, height, width]")
    return image


def _colours(original: Original, config: Mapping[str, Any]) -> tuple[_Colours, tuple[int, int, int]]:
    """Return what is done to colours, and the shape of what a plain picture becomes."""
    # Black and the three primaries, in a size that no model has
    plain = [original(PIL.Image.new("RGB", (31, 23), colour)) for colour in _PLAIN]
    channels, height, width = plain[0].shape
    # at the centre, for black may be put around a picture
    black, *primaries = (image[:, image.shape[1] // 2, image.shape[2] // 2].double() for image in plain)
    # [channel, primary]: what each primary adds to each channel
    gain = torch.stack([primary - black for primary in primaries], 1)
    # Blue first, if the other diagonal is the stronger one
    backwards = channels == 3 and bool(gain.flip(1).diagonal().abs().sum() > gain.diagonal().abs().sum())
    if channels == 1:  # grey, of all three
        # One channel of grey adds up all three, by their luma
        scale = gain.sum(1)
        expected = scale[:, None] * torch.tensor([_LUMA])
    else:
        gain = gain.flip(1) if backwards else gain
        scale = gain.diagonal()
        expected = scale.diag()
    # Only a scale for each channel: no mixing, and none that inverts
    if not (bool((scale > 0).all()) and torch.allclose(gain, expected, atol=0.01 * float(scale.abs().max()))):
        raise Unsupported("changes colours by more than a mean and a standard deviation of each channel")
    # p · scale + black = (p - mean) / std
    measured = _Colours((-black / scale).tolist(), (1 / scale).tolist(), backwards)
    if max(map(abs, measured.mean)) > LARGEST or max(measured.std) > LARGEST:
        ends = f"{float(black.min()):.3g} and {float((black + scale).max()):.3g}"
        raise Unsupported(f"makes {ends} of black and white, as if pixels were rescaled twice")
    if backwards:
        measured = _Colours(measured.mean[::-1], measured.std[::-1], True)
    return _as_said(measured, config), (channels, height, width)


def _as_said(measured: _Colours, config: Mapping[str, Any]) -> _Colours:
    """Return the configuration's own numbers where they are those that were measured, else these in six figures.

    A processor computes (255 r p - mean) / std of a pixel p in [0, 1], r its rescale factor.
    """
    # A pixel p in [0, 1] is the byte 255 p, which is rescaled
    scale = 255 * (config.get("rescale_factor") or 1 / 255) if config.get("do_rescale", True) else 255.0
    said = {"image_mean": [0.0], "image_std": [1.0]}
    if config.get("do_normalize", True):
        said = {key: config.get(key) or value for key, value in said.items()}
    numbers = []
    for values, seen in zip(said.values(), measured[:2], strict=True):
        own = [float(value) / scale for value in (values if isinstance(values, Sequence) else [values])]
        own = own * len(seen) if len(own) == 1 else own[::-1] if measured.reversed else own
        alike = len(own) == len(seen) and np.allclose(own, seen, rtol=_ALIKE, atol=_ALIKE * max(measured.std))
        # Six figures; + 0.0 makes 0 of -0
        numbers.append(own if alike else [float(f"{value:.6g}") + 0.0 for value in seen])
    mean, std = numbers
    return _Colours(mean, std, measured.reversed)


def _geometry(original: Original, config: Mapping[str, Any], found: Preprocessing) -> Geometry:
    """Return the geometry by which pictures become what the processor makes of them."""
    # Pictures of several shapes must all become one
    for side in sizes(Geometry(found.shape[1:])):
        shape = original.of_noise(*side)[1].shape
        if shape != found.shape:
            raise Unsupported(
                f"gives images of different sizes, {list(found.shape)} and {list(shape)}, where an encoder takes one"
            )
    for candidate in _candidates(config, found):
        if equal(original, replace(found, geometry=candidate)):
            return candidate
    raise Unsupported(BEYOND)


def _candidates(config: Mapping[str, Any], found: Preprocessing) -> Iterator[Geometry]:
    """Yield what a configuration may mean, the most likely first; a wrong one fails on the first picture."""
    channels, height, width = found.shape
    data = config.get("data_config") or {}  # of timm, in processors that wrap it
    size = _sides(config.get("size") or data.get("input_size", ())[1:])
    share, name = config.get("crop_pct") or data.get("crop_pct"), config.get("resample", data.get("interpolation"))
    # what is scaled to what: LeViT adds 32 to 224, ConvNeXt and its kin divide by the share that a crop keeps
    edges = dict.fromkeys([size.get("shortest_edge"), size.get("height"), size.get("width"), height, width])
    shares = [1, *([share] if share else []), 224 / 256]
    # The lengths of which a crop keeps these shares
    short: list[int | tuple[int, int]] = [int(edge / part) for edge in edges if edge for part in shares]
    if "height" in size and "width" in size:
        short += [(int(size["height"] / part), int(size["width"] / part)) for part in shares]
    resizes = [None, *dict.fromkeys(short)]
    # by which filter, by whose arithmetic, and from where on
    # An enum of Pillow, its number, or a name
    name = getattr(name, "value", name)
    named = name if isinstance(name, str) else _RESAMPLE.get(name)
    filters: list[Interpolation] = [interpolation(known) for known in get_args(Interpolation) if named in (None, known)]
    if named == "lanczos":
        filters.append("bicubic")  # in its place on older torch
    # The backend that it says it runs on comes first
    fast = "torchvision" in found.source or found.source.endswith("Fast")
    resamplers: tuple[Resampler, ...] = ("torch", "pillow") if fast else ("pillow", "torch")
    roundings = get_args(Rounding)[::-1]
    longest = [size["longest_edge"], None] if "longest_edge" in size else [None]
    for resize, most, filter_name, resampler in product(resizes, longest, filters, resamplers):
        if most and not isinstance(resize, int):
            continue
        # Where nothing is cropped, no centre is rounded
        for rounding in roundings[-1:] if resize is None else roundings:
            yield Geometry(
                (height, width), channels, resize, filter_name, f"what {found.source} does", most, rounding, resampler
            )


def _sides(size: object) -> dict[str, int]:
    """Return the sides that a size names; older configurations give one number for a square, or height and width."""
    if isinstance(size, int):
        return {"height": size, "width": size}
    if isinstance(size, Sequence):
        size = dict(zip(("height", "width"), size, strict=False))
    return {key: int(value) for key, value in size.items() if value} if isinstance(size, Mapping) else {}
