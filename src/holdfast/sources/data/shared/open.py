"""From a spec string, a path or an array to the images of an audit."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from holdfast.core import Geometry, ImageSource, registry
from holdfast.core.source_spec import Options, boolean, finish, one_of, parse, sides, take
from holdfast.runtime.checked import check_arguments, describe_value, integer, number
from holdfast.runtime.errors import Ambiguous, BadValue, Failed, Missing, UnknownName
from holdfast.runtime.foreign import foreign
from holdfast.runtime.guess import format_suggestions, likeness, nearest, path_meant
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.shared.geometry import Conversion
from holdfast.sources.data.shared.image_set import ImageSet
from holdfast.sources.data.shared.long_tail import LongTail


@check_arguments
def open_images(
    spec: str | os.PathLike[str] | ImageSource | np.ndarray | Tensor,
    *,
    geometry: Geometry | None = None,
    images: int | None = None,
    seed: int = 0,
    skip_corrupt: bool = False,
    workers: int | None = None,
    conversion: Conversion | None = None,
    skip_duplicates: bool = False,
    queries: int | None = None,
) -> ImageSet:
    """Open the images of an audit.

    Args:
        spec: "digits", a path, "source:name?key=value&...", an array [N, ...], or a source. Every spec string takes
            size=H or size=HxW and channels=1|3 (see `Conversion`), skip_corrupt=true, skip_duplicates=true, and
            balance=long_tail|uniform with ratio=100 and balance_seed=0 (see `LongTail`).
        geometry: how pictures become pixels, from the encoder.
        images: how many of them; all where None.
        seed: which images.
        skip_corrupt: replace unreadable images by others, named in `ImageSet.unreadable`, instead of failing.
        workers: threads that read; None: as many as there are cores, at most 16.
        conversion: sizes and channels to convert to; the options of a spec string go before it.
        skip_duplicates: replace images that look like another one, named in `ImageSet.duplicates`.
        queries: of a retrieval task, how many queries are among the images, with all that is relevant to them. They are
            its first images. None: all, or as many as fit into half of so many images.

    Raises:
        HoldfastError: an unknown source or option, or images that are not there.
    """
    conversion = conversion or Conversion()
    if isinstance(spec, (np.ndarray, Tensor)):
        spec = Arrays(spec)
    elif isinstance(spec, os.PathLike):
        spec = _local(Path(spec), Options())
    elif isinstance(spec, str):
        spec, options, corrupt, duplicates = _source(spec)
        # What the spec says goes before what the caller says
        conversion = Conversion(options.size or conversion.size, options.channels or conversion.channels)
        skip_corrupt, skip_duplicates = skip_corrupt or corrupt, skip_duplicates or duplicates
    return ImageSet(
        spec, images=images, seed=seed, geometry=geometry, skip_corrupt=skip_corrupt, workers=workers,
        conversion=conversion, skip_duplicates=skip_duplicates, queries=queries,
    )  # fmt: skip


def _source(spec: str) -> tuple[ImageSource, Conversion, bool, bool]:
    """Open the source that a spec string names; also what all sources' options ask for."""
    prefix, name, options = parse(spec)
    conversion = Conversion(take(options, "size", _size, None), take(options, "channels", _channels, None))
    skip_corrupt = take(options, "skip_corrupt", boolean, False)
    skip_duplicates = take(options, "skip_duplicates", boolean, False)
    balanced = _balance(options)
    # As it was typed, since a path may hold a ":"
    address = spec.strip().partition("?")[0]
    sources = registry.names("data")
    # A prefix that is no source may be the beginning of a path
    if prefix is None or (prefix not in sources and Path(address).exists()):
        source = _open_by_name(address, options)
    elif prefix in sources:
        source = _open(prefix, name, options)
    else:
        near = [f"{other}{address[len(prefix) :]}" for other in nearest(prefix, sources)]
        raise UnknownName(
            f"unknown data source {prefix!r}{format_suggestions(near) or ';'} known: {', '.join(sources)}"
        )
    return balanced(source), conversion, skip_corrupt, skip_duplicates


def _balance(options: Options) -> Callable[[ImageSource], ImageSource]:
    """Return a source under its options: its long tail, the balanced twin, or the source as it is."""
    kind = take(options, "balance", one_of("long_tail", "uniform"), None)
    if kind is None:
        return lambda source: source
    ratio, seed = take(options, "ratio", number, 100.0), take(options, "balance_seed", integer, 0)
    return partial(LongTail, ratio=ratio, seed=seed, uniform=kind == "uniform")


def _open(prefix: str, name: str, options: Options) -> ImageSource:
    """Open what a source calls so; what is nobody's option is refused, also where a source of others forgets to."""
    ours = registry.home("data", prefix) is not None
    # Before it opens anything: that it is a DataSource
    if not ours:
        _outline(prefix)
    with nullcontext() if ours else foreign(f"the data source {prefix!r}", "opened", wrap=True):
        images = _make(prefix).open(name, options)
    finish(options)
    if not isinstance(images, ImageSource):
        raise Failed(
            f"{options.spec}: expected an ImageSource from the data source {prefix!r}, got {describe_value(images)}; "
            "TorchDataset of holdfast.extend makes one of a dataset"
        )
    return images


def _open_by_name(name: str, options: Options) -> ImageSource:
    path = Path(name).expanduser()
    if name in registry.names("data") and _is_bare(name):
        return _open(name, "", options)
    if path.exists() or _opening(path) or os.sep in name:
        return _local(path, options)
    raise _no_data(name)


def _no_data(name: str) -> UnknownName:
    """Return the error for data that are no source, file or folder: what of all that there is was meant."""
    sources = registry.names("data")
    # Files and bare sources first: names inside sources cost an import each
    near = nearest(name, [entry.name for entry in Path().iterdir()]) + nearest(name, filter(_is_bare, sources))
    if not near:
        known = [(source, each) for source in sources for each in _make(source).names()]
        # Only what is nearly the same, since the choice is large
        near = [f"{source}:{each}" for source, each in known if likeness(name, each.partition("?")[0]) > 0.9]
    return UnknownName(
        f"unknown data {name!r}{format_suggestions(near[:2]) or ';'} neither a source ({', '.join(sources)}) nor a "
        "file or folder"
    )


def _local(path: Path, options: Options) -> ImageSource:
    if path.is_dir():
        return _open("folder", str(path), options)
    if len(sources := _opening(path)) == 1:
        return _open(sources[0], str(path), options)
    if sources:
        specs = " or ".join(f"{source}:{path}" for source in sources)
        raise Ambiguous(f"{str(path)!r}: expected one source of {path.suffix} files, got two; write {specs}")
    if path.exists():
        *most, last = (suffix for source in registry.names("data") for suffix in _suffixes(source))
        raise BadValue(f"expected a folder, {', '.join(most)} or {last}, got the file {str(path)!r}; give its folder")
    # "org/name" is what the hub calls a dataset
    known = f"hf:{path}" if len(path.parts) == 2 and not path.is_absolute() and not path.parent.exists() else ""
    advice = (
        f"did you mean {known}, of the Hugging Face hub?" if known else "check the path, or see: holdfast list data"
    )
    raise Missing(f"no file or folder {str(path)!r}; {path_meant(path, advice)}")


def _opening(path: Path) -> list[str]:
    """Return the sources that open a file by the end of its name."""
    return [source for source in registry.names("data") if path.suffix in _suffixes(source)]


def _suffixes(source: str) -> tuple[str, ...]:
    return _outline(source).suffixes


def _is_bare(source: str) -> bool:
    return _outline(source).bare


def _make(source: str) -> Any:
    return registry.find("data", source)()


def _outline(source: str) -> Any:
    """Return what a source says of itself; those that are not asked to open anything are not imported for it."""
    part = registry.find_outline("data", source)
    if not hasattr(part, "suffixes"):
        raise BadValue(
            f"the data source {source!r}: expected a DataSource of holdfast.extend, got the class {part.__name__}"
        )
    return part


def _size(value: str) -> int | tuple[int, int]:
    pixels = list(sides(value, "H or HxW in pixels, such as size=32 or size=32x48"))
    if len(pixels) > 2:
        raise ValueError("expected H or HxW in pixels, such as size=32 or size=32x48")
    return pixels[0] if len(pixels) == 1 else (pixels[0], pixels[1])


def _channels(value: str) -> int:
    if value not in ("1", "3"):
        raise ValueError("expected 1 (grey) or 3 (RGB)")
    return int(value)
