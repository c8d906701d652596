"""Where encoders come from: one file per source, reached by spec strings through `open_encoder`."""

from pathlib import Path
from typing import Any

from holdfast.core import registry
from holdfast.core.encoder import Encoder
from holdfast.core.spec_string import parse
from holdfast.runtime.doctor import doctor
from holdfast.runtime.errors import HoldfastError, unknown

__all__ = ["doctor", "open_encoder", "suffixes"]


def open_encoder(spec: str) -> Encoder:
    """Open an encoder from a spec string, for example "timm:resnet18?layer=layer3&pool=avg".

    The grammar is `source:name?key=value&key=value`, the sources are the parts of the kind "encoders"; the path of a
    .safetensors or .onnx file needs no source. All sources understand `weights=default|random|path`, `seed=`, `layer=`,
    `pool=`, `mean=`, `std=`, `label=`, and how pictures become the input: `resize=256&crop=224` scales the shorter side
    and cuts out the centre, `resize=squash` takes the whole picture, `interpolation=` is the filter of both; `size=`
    alone moves the input to another size and keeps the share that is cropped.

    Raises:
        HoldfastError: an unknown source, name or option, an absent package, weights that cannot be had.
    """
    source, name, options = parse(spec)
    sources = registry.names("encoders")
    if source is None:
        source = suffixes().get(Path(name).suffix.lower())
        if source is None:
            raise HoldfastError(
                f"encoder {spec!r} names no source: expected source:name with one of {', '.join(sources)}, or the path "
                "of a .safetensors or .onnx file; try zoo:digits-simclr"
            )
    if source not in sources:
        raise unknown("encoder source", source, sources)
    part: Any = registry.find("encoders", source)
    return part().open(name, options)


def suffixes() -> dict[str, str]:
    """Return the sources that open files, by the ends of their names: {".onnx": "onnx", ...}."""
    sources: dict[str, Any] = {name: registry.find("encoders", name) for name in registry.names("encoders")}
    return {source.suffix: name for name, source in sources.items() if source.suffix is not None}
