"""Where encoders come from: one file per source, reached by spec strings through `open_encoder`."""

import importlib
from pathlib import Path

from holdfast.core.encoder import Encoder
from holdfast.runtime.doctor import doctor
from holdfast.runtime.errors import HoldfastError, unknown
from holdfast.sources.spec_string import parse

__all__ = ["SOURCES", "doctor", "open_encoder"]

SOURCES: dict[str, tuple[str, str | None]] = {
    "zoo": ("small networks of the papers with random weights, and three trained digit encoders", None),
    "file": ("a zoo network with weights from a safetensors file: file:weights.safetensors?mean=0&std=1", None),
    "py": ("your own function: py:package.module:factory returns an Encoder, or a module and ?mean=&std=", None),
    "onnx": ("an ONNX file, differentiable: onnx:encoder.onnx?mean=0&std=1", "onnx"),
    "torchvision": (
        "torchvision's classifiers, penultimate features: torchvision:resnet50@IMAGENET1K_V2",
        "torchvision",
    ),
    "timm": ("timm's models, pooled features: timm:resnet18, timm:hf-hub:org/name, timm:local-dir:path", "timm"),
    "hf": ("Hugging Face vision models: hf:org/name or hf:./local-dir", "hf"),
    "openclip": ("OpenCLIP image towers: openclip:ViT-B-32/laion2b_s34b_b79k", "openclip"),
}
"""Prefix of a spec string -> (one line, the extra of `pip install 'holdfast[extra]'` it needs)."""

_FILES = {"file": "checkpoint", "py": "module", "hf": "huggingface", "openclip": "open_clip"}  # others: as the prefix
_SUFFIXES = {".safetensors": "file", ".onnx": "onnx"}


def open_encoder(spec: str) -> Encoder:
    """Open an encoder from a spec string, for example "timm:resnet18?layer=layer3&pool=avg".

    The grammar is `source:name?key=value&key=value`, the sources are `SOURCES`; the path of a .safetensors or
    .onnx file needs no source. All sources understand `weights=default|random|path`, `seed=`, `layer=`, `pool=`,
    `mean=`, `std=`, `size=` and `label=`.

    Raises:
        HoldfastError: an unknown source, name or option, an absent package, weights that cannot be had.
    """
    source, name, options = parse(spec)
    if source is None:
        source = _SUFFIXES.get(Path(name).suffix.lower())
        if source is None:
            raise HoldfastError(
                f"encoder {spec!r} names no source: expected source:name with one of {', '.join(SOURCES)}, or the path "
                "of a .safetensors or .onnx file; try zoo:digits-simclr"
            )
    if source not in SOURCES:
        raise unknown("encoder source", source, SOURCES)
    return importlib.import_module(f"holdfast.sources.encoders.{_FILES.get(source, source)}").open(name, options)
