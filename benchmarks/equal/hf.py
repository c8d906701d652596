"""All image processors of transformers, each as it comes and with changed configurations, against themselves."""

import importlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import PIL.Image

from benchmarks.equal.family import Case, Family
from benchmarks.equal.preprocessings import LIMIT, UNIT, case
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.encoders.shared.hf_processor import describe_processor, pixel_values, preprocessing
from holdfast.sources.encoders.shared.original import Original

SQUARE = {"height": 64, "width": 64}
CROPPED = {"do_resize": True, "do_center_crop": True, "crop_size": SQUARE}

VARIATIONS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "not normalised": {"do_normalize": False},
    "mean and std as one number": {"do_normalize": True, "image_mean": 0.4, "image_std": 0.2},
    "not rescaled": {"do_rescale": False, "do_normalize": True, "image_mean": [99.0, 98.0, 97.0], "image_std": 51.0},
    "rescaled to [-1, 1]": {"rescale_factor": 1 / 127.5, "rescale_offset": True, "include_top": False},
    "shorter side, an odd crop": {**CROPPED, "size": {"shortest_edge": 73}},
    "shorter and longer side": {**CROPPED, "size": {"shortest_edge": 64, "longest_edge": 96}},
    "squashed, then cropped": {**CROPPED, "size": {"height": 73, "width": 81}},
    "cropped beyond the edge": {**CROPPED, "size": {"shortest_edge": 55}},
    "a share": {"size": {"shortest_edge": 60}, "crop_size": {"height": 60, "width": 60}, "crop_pct": 0.9},
    "padded": {"do_pad": True, "pad_size": {"height": 96, "width": 96}, "size": SQUARE},
    "blue, green, red": {"do_flip_channel_order": True, "size": SQUARE, "crop_size": SQUARE},
    "another filter": {"resample": 1, "size": SQUARE, "crop_size": SQUARE},
    "no filter": {"resample": 0, "size": SQUARE, "crop_size": SQUARE},
    "not resized": {"do_resize": False, "do_center_crop": True, "crop_size": SQUARE},
}
"""Changes of a configuration, by what they are called."""

FILES: dict[str, dict[str, Any]] = {
    "TimmWrapperImageProcessor": {
        "pretrained_cfg": {"input_size": (3, 96, 96), "crop_pct": 0.9, "architecture": "resnet18"},
    },
}
"""What a class needs that has no defaults."""


def processors() -> dict[str, Any]:
    """Return the classes of all image processors, fast and slow ones, by their names."""
    guard_torchvision()
    transformers: Any = importlib.import_module("transformers")  # types of all its models take pyright a minute
    auto: Any = importlib.import_module("transformers.models.auto.image_processing_auto")

    transformers.logging.set_verbosity_error()
    kinds = [
        entry.values() if isinstance(entry, Mapping) else entry for entry in auto.IMAGE_PROCESSOR_MAPPING_NAMES.values()
    ]
    names = sorted({name for entry in kinds for name in entry if name})
    return {name: found for name in names if (found := getattr(transformers, name, None)) is not None}


def of(name: str, kind: Any) -> Iterator[Case]:
    """Yield the comparisons of one class; changes that it does not take, or that change nothing, are left out."""
    seen: list[Mapping[str, Any]] = []
    for variation, changes in VARIATIONS.items():
        label = f"{name}: {variation}"
        try:
            processor = kind(**FILES.get(name, {}), **changes)
            if changes:
                processor(images=PIL.Image.new("RGB", (80, 80)))
        except Exception:  # of a library, which does not know this change, or not with its other settings
            continue
        if (config := processor.to_dict()) in seen:
            continue
        seen.append(config)
        original = Original(describe_processor(processor), partial(pixel_values, processor))
        yield case(label, original, partial(preprocessing, processor, (3, 224, 224)))


def cases() -> Iterator[Case]:
    """Yield the comparisons of all classes."""
    for name, kind in processors().items():
        yield from of(name, kind)


FAMILY = Family(
    "Image processors of Hugging Face",
    "the geometry, mean, std and order of channels of `hf:`",
    "the pixels of the processor itself: every class, fast and slow, as it comes and with up to 14 changes",
    UNIT,
    LIMIT,
    ("transformers", "torchvision", "pillow"),
    cases,
)
