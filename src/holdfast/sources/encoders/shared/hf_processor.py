"""What a Hugging Face image processor does to pictures, as mean, std and geometry, checked against the processor."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import PIL.Image
import torch

from holdfast.core.encoder import Geometry
from holdfast.runtime.errors import HoldfastError
from holdfast.sources.encoders.shared.assemble import Preprocessing
from holdfast.sources.encoders.shared.pictures import interpolation

_RESAMPLE = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # PIL.Image.Resampling


def preprocessing(processor: Any, spec: str) -> Preprocessing:
    """Return mean and std in [0, 1] pixels, and geometry, from a processor's configuration.

    A processor computes (255 r p - mean) / std of a pixel p in [0, 1], r its rescale factor; hence the mean and std
    that `Encoder` takes are mean / (255 r) and std / (255 r). Both are checked on a black and a white picture; where
    the processor does something else as well, they are left out, and the user has to give them.

    Raises:
        HoldfastError: a processor that does not return [channel, height, width].
    """
    config = processor.to_dict()
    black, white = (_run(processor, value) for value in (0, 255))
    if black.ndim != 3 or black.shape[0] not in (1, 3):
        raise HoldfastError(
            f"{spec}: expected a processor that gives [channel, height, width], got {list(black.shape)}"
        )
    channels, height, width = black.shape
    # what the config says, of [0, 1] pixels
    scale = 255 * config.get("rescale_factor", 1 / 255) if config.get("do_rescale", True) else 255.0
    normalise = config.get("do_normalize", True)
    mean = [m / scale for m in (config["image_mean"] if normalise else [0.0] * channels)]
    std = [s / scale for s in (config["image_std"] if normalise else [1.0] * channels)]
    geometry = _geometry(config, channels)
    if geometry is not None and geometry.size != (height, width):
        geometry = None
    # black and white pictures show whether the processor does just that
    shape = (channels, height, width)
    source = f"{type(processor).__name__} config"
    for pixel, normalised in ((0.0, black), (1.0, white)):
        expected = (pixel - torch.tensor(mean)) / torch.tensor(std)
        if not torch.allclose(normalised, expected.view(-1, 1, 1).expand(shape), atol=1e-4):
            return Preprocessing(
                None, None, f"{source} (which changes pixels by more than mean and std)", shape, geometry
            )
    return Preprocessing(mean, std, source, shape, geometry)


def _run(processor: Any, value: int) -> torch.Tensor:
    picture = PIL.Image.fromarray(np.full((320, 480, 3), value, dtype=np.uint8))
    return torch.as_tensor(np.asarray(processor(images=picture, return_tensors="pt")["pixel_values"][0])).float()


def _geometry(config: Mapping[str, Any], channels: int) -> Geometry | None:
    """Return the geometry, or None where the steps are not a resize, a centre crop, or a squash."""
    size, crop = _sides(config.get("size")), _sides(config.get("crop_size"))
    crop = crop if config.get("do_center_crop") else {}
    if not config.get("do_resize", True) or config.get("do_pad") or config.get("resample") not in _RESAMPLE:
        return None
    filter_name, source = interpolation(_RESAMPLE[config["resample"]]), "Hugging Face processor config"
    edge = size.get("shortest_edge")
    if edge and config.get("crop_pct"):  # ConvNeXt and kin: below 384 enlarge by 1 / crop_pct and crop, else squash
        resize = int(edge / config["crop_pct"]) if edge < 384 else None
        return Geometry((edge, edge), channels, resize, filter_name, source)
    if edge and crop and not size.get("longest_edge"):
        return Geometry((crop["height"], crop["width"]), channels, edge, filter_name, source)
    if "height" in size and (not crop or (crop["height"], crop["width"]) == (size["height"], size["width"])):
        return Geometry((size["height"], size["width"]), channels, None, filter_name, source)
    return None


def _sides(size: object) -> dict[str, int]:
    """Return the sides that a size names; older configurations give one number for a square."""
    if isinstance(size, int):
        return {"height": size, "width": size}
    return {key: int(value) for key, value in dict(size).items() if value} if isinstance(size, Mapping) else {}
