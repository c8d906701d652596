"""Where encoders come from: one file per source, reached by spec strings through `open_encoder`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.core import registry
from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import Destination, EncoderSource, TextTower
from holdfast.core.source_spec import Options, parse, positive, take
from holdfast.runtime.doctor import advise, doctor
from holdfast.runtime.errors import HoldfastError, UnknownName
from holdfast.runtime.guess import ALIKE, format_suggestions, likeness, nearest

__all__ = [
    "advise",
    "check_encoder",
    "destination_of",
    "doctor",
    "draws_of",
    "files_of",
    "find_weights_suffix",
    "is_differentiable",
    "open_encoder",
    "open_texts",
    "suffixes",
    "write",
]


def open_encoder(spec: str) -> Encoder:
    """Open an encoder from a spec string, for example "timm:resnet18?layer=layer3&pool=avg".

    The grammar is `source:name?key=value&key=value`, the sources are the parts of the kind "encoders"; the path of a
    .safetensors or .onnx file needs no source. All sources understand `weights=default|random|path`, `seed=`, `layer=`,
    `pool=`, `mean=`, `std=`, `label=`, and how pictures become the input: `resize=256&crop=224` scales the shorter side
    and cuts out the centre, `resize=squash` takes the whole picture, `interpolation=` is the filter of both; `size=`
    alone moves the input to another size and keeps the share that is cropped. `draws=` says of how many draws of a
    network with random numbers the encoder is the mean, `straight_through=` which modules have no useful gradient.

    Raises:
        HoldfastError: an unknown source, name or option, an absent package, weights that cannot be had.
    """
    source, name, options = _source(spec)
    # Taken before the source sees the options, which it would refuse
    draws, steps = _randomness(options)
    return source.open(name, options).set_randomness(draws, steps)


def draws_of(spec: str) -> int | None:
    """Return of how many draws the encoder of a spec is the mean, as far as the spec says it.

    Raises:
        HoldfastError: no spec of an encoder, a number that is none.
    """
    return _randomness(parse(spec)[2])[0]


def open_texts(spec: str) -> TextTower:
    """Open the text tower that belongs to an encoder, for example that of "openclip:ViT-B-32/openai".

    Raises:
        HoldfastError: an encoder without one, and what `open_encoder` raises.
    """
    source, name, options = _source(spec)
    return source.texts(name, options)


def check_encoder(spec: str) -> None:
    """Raise what can be said of a spec string without opening the encoder, see `EncoderSource.check`.

    Raises:
        HoldfastError: an unknown source, name or option, a file or package that is not there.
    """
    source, name, options = _source(spec)
    _randomness(options)
    source.check(name, options)


def files_of(spec: str) -> Sequence[Path] | None:
    """Return the files that decide what the encoder of a spec is, see `EncoderSource.files`."""
    source, name, options = _source(spec)
    _randomness(options)
    return source.files(name, options)


def destination_of(spec: str) -> Destination | None:
    """Return to whom the encoder of a spec sends images, see `EncoderSource.sends`; None: they stay here."""
    try:
        source, name, options = _source(spec)
        _randomness(options)
        return source.sends(name, options)
    except HoldfastError:  # which is told where encoders are looked up
        return None


def find_weights_suffix(spec: str) -> str | None:
    """Return how files of the source of a spec end, where it writes some of encoders that were trained."""
    return _source(spec)[0].writes


def write(spec: str, encoder: Encoder, path: Path) -> None:
    """Write an encoder that a spec opened, and that was trained since, as a file of its source's own.

    Raises:
        HoldfastError: weights that such a file cannot hold.
    """
    source, name, options = _source(spec)
    source.write(name, options, encoder, path)


def is_differentiable(spec: str) -> bool:
    """Return whether the encoder of a spec has a gradient to the pixels, as far as its source tells."""
    try:
        return _source(spec)[0].differentiable
    except HoldfastError:  # which is told where encoders are looked up
        return True


def _randomness(options: Options) -> tuple[int | None, list[str]]:
    """Take what every encoder understands, whatever its source: `draws=` and `straight_through=`."""
    return take(options, "draws", positive, None), take(options, "straight_through", lambda text: text.split(","), [])


def _source(spec: str) -> tuple[EncoderSource, str, Options]:
    """Return the source that a spec names, and what stands behind its ":" and its "?"."""
    source, name, options = parse(spec)
    sources = registry.names("encoders")
    if source is None:
        source = suffixes().get(Path(name).suffix.lower())
        if source is None:
            raise _no_source(spec, name)
    if source not in sources:
        # What was typed behind the source is kept in what is proposed
        tail = f":{spec.strip().partition(':')[2]}"
        near = [f"{other}{tail}" for other in nearest(source, sources)]
        raise UnknownName(
            f"unknown encoder source {source!r}{format_suggestions(near) or ';'} known: {', '.join(sources)}"
        )
    part: Any = registry.find("encoders", source)
    return part(), name, options


def _no_source(spec: str, name: str) -> UnknownName:
    """Return the error for an encoder without a source: what of all that sources open was meant."""
    path, tail = Path(name).expanduser(), spec.strip()[len(name) :]
    if path.is_dir():
        meant = [f"hf:{name}{tail}", f"timm:local-dir:{name}{tail}"]
    # A file of weights says nothing of its network
    elif path.suffix in (".pt", ".pth", ".bin", ".ckpt", ".tar"):
        meant = [f"timm:resnet50?weights={name}", f"torchvision:resnet50?weights={name}"]
    else:
        plain, at, _ = name.partition("@")  # which names weights of torchvision's
        # With weights only torchvision writes a model so
        sources = ["torchvision"] if at else registry.names("encoders")
        known = [f"{source}:{model}" for source in sources for model in opens(source)]
        scores = {spec: likeness(plain, spec.partition(":")[2]) for spec in known}
        best = max(scores.values(), default=0.0)
        near = [spec for spec, score in scores.items() if score == best >= ALIKE]
        # The rest of what was typed stays
        meant = [f"{near}{name[len(plain) :]}{tail}" for near in near[:2]]
        meant = [f"hf:{name}{tail}"] if not meant and name.count("/") == 1 else meant
    return UnknownName(
        f"encoder {spec!r} names no source{format_suggestions(meant) or ':'} expected source:name such as "
        "timm:resnet18 or zoo:digits-simclr, or the path of a .safetensors or .onnx file; see holdfast list encoders"
    )


def opens(source: str) -> tuple[str, ...]:
    """Return names that a source opens, see `EncoderSource.names`."""
    part: Any = registry.find("encoders", source)
    return tuple(part().names())


def suffixes() -> dict[str, str]:
    """Return the sources that open files, by the ends of their names: {".onnx": "onnx", ...}."""
    sources: dict[str, Any] = {name: registry.find("encoders", name) for name in registry.names("encoders")}
    return {source.suffix: name for name, source in sources.items() if source.suffix is not None}
