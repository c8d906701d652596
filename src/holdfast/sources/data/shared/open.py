"""From a spec string, a path or an array to the images of an audit."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor

from holdfast.core import Geometry, ImageSource
from holdfast.core.spec_string import Options, boolean, finish, one_of, parse, sides, take
from holdfast.runtime.checked import check_arguments, integer, number
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.guess import format_suggestions, likeness, nearest, path_meant
from holdfast.runtime.names import parse_names
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.corrupted import cifar10c, imagenetc
from holdfast.sources.data.digits import Digits
from holdfast.sources.data.folder import Folder
from holdfast.sources.data.huggingface import HuggingFace
from holdfast.sources.data.listed import Listed
from holdfast.sources.data.long_tail import LongTail
from holdfast.sources.data.shared.geometry import Conversion
from holdfast.sources.data.shared.image_set import ImageSet
from holdfast.sources.data.torchvision import Torchvision
from holdfast.sources.data.webdataset import WebDataset

SOURCES: dict[str, tuple[str, str | None]] = {
    "digits": ("scikit-learn's handwritten digits, the held-out 600; ?part=heldout|train|all", None),
    "gaussian": ("two Gaussian classes, drawn; gaussian?shape=3x32x32&s=1&share=.5&scale=.1&count=64&draw=0", None),
    "folder": ("pictures below a folder, flat or one folder per class; the path alone will do", None),
    "arrays": (".npz and .npy files; ?key= layout=NHW|NHWC|NCHW; the path alone will do", None),
    "list": ("a text file of pictures, a path and a class in each line; list:FILE?root=FOLDER, as ImageNet-LT", None),
    "cifar10c": ("CIFAR-10-C, cifar10c:FOLDER?corruption=fog&severity=3; labels and ids are those of CIFAR-10", None),
    "imagenetc": ("ImageNet-C, imagenetc:FOLDER?corruption=fog&severity=3; folders NAME/SEVERITY/synset", None),
    "retrieval": ("retrieval task (MTEB, BEIR), retrieval:FOLDER?split=test&config=&skip_own=true&text=ignore", None),
    "torchvision": ("torchvision.datasets, torchvision:CIFAR10?root=FOLDER&split=test&download=true", "torchvision"),
    "hf": ("Hugging Face datasets, hf:org/name?split=&config=&column=&label=&revision=, or a folder", "datasets"),
    "webdataset": ("WebDataset shards, webdataset:path/{000..010}.tar?column=jpg; one .tar alone will do", None),
}
"""Prefix of a data spec -> (what it reads and its options, extra to install)."""


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
    address = spec.strip().partition("?")[0]
    if prefix is None or (prefix not in SOURCES and Path(address).exists()):
        source = _open_by_name(address, options)
    elif prefix in SOURCES:
        source = _open_by_prefix(prefix, name, options)
    else:
        near = [f"{other}{address[len(prefix) :]}" for other in nearest(prefix, SOURCES)]
        raise HoldfastError(
            f"unknown data source {prefix!r}{format_suggestions(near) or ';'} known: {', '.join(SOURCES)}"
        )
    return balanced(source), conversion, skip_corrupt, skip_duplicates


def _balance(options: Options) -> Callable[[ImageSource], ImageSource]:
    """Return a source under its options: its long tail, the balanced twin, or the source as it is."""
    kind = take(options, "balance", one_of("long_tail", "uniform"), None)
    if kind is None:
        return lambda source: source
    ratio, seed = take(options, "ratio", number, 100.0), take(options, "balance_seed", integer, 0)
    return partial(LongTail, ratio=ratio, seed=seed, uniform=kind == "uniform")


def _open_by_name(name: str, options: Options) -> ImageSource:
    path = Path(name).expanduser()
    if name in ("digits", "gaussian"):
        return _open_by_prefix(name, name, options)
    if path.exists() or path.suffix in (".npy", ".npz", ".tar") or os.sep in name:
        return _local(path, options)
    raise _no_data(name)


def _no_data(name: str) -> HoldfastError:
    """Return the error for data that are no source, file or folder: what of all that there is was meant."""
    datasets = [f"torchvision:{dataset}?root=FOLDER" for dataset in parse_names("torchvision.datasets", "__all__")]
    near = nearest(name, [entry.name for entry in Path().iterdir()]) + nearest(name, ["digits", "gaussian"])
    near = near or [spec for spec in datasets if likeness(name, spec.partition(":")[2].partition("?")[0]) > 0.9]
    return HoldfastError(
        f"unknown data {name!r}{format_suggestions(near[:2]) or ';'} neither a source "
        f"({', '.join(SOURCES)}) nor a file or folder"
    )


def _local(path: Path, options: Options) -> ImageSource:
    if path.is_dir():
        return _open_by_prefix("folder", str(path), options)
    if path.suffix in (".npy", ".npz"):
        return _open_by_prefix("arrays", str(path), options)
    if path.suffix == ".tar":
        return _open_by_prefix("webdataset", str(path), options)
    if path.exists():
        raise HoldfastError(f"expected a folder, .npz, .npy or .tar, got the file {str(path)!r}; give its folder")
    known = f"hf:{path}" if len(path.parts) == 2 and not path.is_absolute() and not path.parent.exists() else ""
    advice = (
        f"did you mean {known}, of the Hugging Face hub?" if known else "check the path, or see: holdfast list data"
    )
    raise HoldfastError(f"no file or folder {str(path)!r}; {path_meant(path, advice)}")


def _open_by_prefix(prefix: str, name: str, options: Options) -> ImageSource:
    def text(option: str) -> str | None:
        return take(options, option, str, None)

    # a constructor with its options; it runs once no option is left over
    make: Callable[[], ImageSource]
    match prefix:
        case "digits":
            if name != "digits":
                raise HoldfastError(f"expected digits or digits?part=train, got digits:{name}")
            make = partial(Digits, take(options, "part", one_of("heldout", "train", "all"), "heldout"))
        case "folder":
            make = partial(Folder, name)
        case "arrays":
            make = partial(Arrays.open, name, key=text("key"), layout=text("layout"))
        case "list":
            make = partial(Listed, name, text("root"))
        case "cifar10c" | "imagenetc":
            corruption, severity = text("corruption"), take(options, "severity", integer, None)
            if corruption is None or severity is None:
                raise HoldfastError(
                    f"expected {prefix}:FOLDER?corruption=fog&severity=3, got no corruption or no severity"
                )
            make = partial(cifar10c if prefix == "cifar10c" else imagenetc, name, corruption, severity)
        case "gaussian":
            if name != "gaussian":
                raise HoldfastError(f"expected gaussian or gaussian?shape=3x32x32, got gaussian:{name}")
            from holdfast.sources.data.gaussian import Gaussian

            make = partial(
                Gaussian,
                take(options, "shape", sides, None),
                s=take(options, "s", number, 1.0),
                share=take(options, "share", number, 0.5),
                scale=take(options, "scale", number, 0.1),
                count=take(options, "count", integer, 64),
                seed=take(options, "draw", integer, 0),
            )
        case "retrieval":
            from holdfast.sources.data.retrieval import RetrievalTask

            make = partial(
                RetrievalTask,
                name,
                split=text("split"),
                config=text("config"),
                skip_own=take(options, "skip_own", boolean, False),
                ignore_text=take(options, "text", one_of("ignore"), None) is not None,
            )
        case "webdataset":
            make = partial(WebDataset, name, column=text("column"))
        case "hf":
            wanted = {option: text(option) for option in ("split", "config", "column", "label", "revision")}
            make = partial(HuggingFace, name, **wanted)
        case _:
            root, split, download = text("root"), text("split"), take(options, "download", boolean, False)
            others = {key: _plain(options.pop(key)) for key in list(options)}  # checked against the class's signature
            make = partial(Torchvision, name, root=root, split=split, download=download, arguments=others)
    finish(options)
    return make()


def _size(value: str) -> int | tuple[int, int]:
    pixels = list(sides(value, "H or HxW in pixels, such as size=32 or size=32x48"))
    if len(pixels) > 2:
        raise ValueError("expected H or HxW in pixels, such as size=32 or size=32x48")
    return pixels[0] if len(pixels) == 1 else (pixels[0], pixels[1])


def _channels(value: str) -> int:
    if value not in ("1", "3"):
        raise ValueError("expected 1 (grey) or 3 (RGB)")
    return int(value)


def _plain(value: str) -> object:
    """Return an option that torchvision takes as what it looks like: bool, int, tuple of ints or text."""
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    numbers = value.split(",")
    if all(number.removeprefix("-").isdecimal() for number in numbers):
        return int(value) if len(numbers) == 1 else tuple(int(number) for number in numbers)
    return value
