"""Datasets of torchvision.datasets, by class name."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import PIL.Image
from torch import Tensor

from holdfast.core import ImageSource
from holdfast.core.data_source import DataSource
from holdfast.core.source_spec import Options, boolean, take
from holdfast.runtime.errors import BadData, BadValue, Conflict, Failed, Unsupported, missing, unknown
from holdfast.runtime.foreign import TURN
from holdfast.runtime.names import parse_names
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.data.shared.labels import class_number
from holdfast.sources.data.shared.reader import copy_picture


@dataclass(frozen=True)
class TorchvisionSource(DataSource):
    """Datasets of torchvision.datasets, by class name."""

    about = "torchvision.datasets, torchvision:CIFAR10?root=FOLDER&split=test&download=true"
    extra = "torchvision"

    def open(self, name: str, options: Options) -> "Torchvision":
        """Open `torchvision:CIFAR10?root=FOLDER`; what else the class takes is an option as well."""
        root, split = take(options, "root", str, None), take(options, "split", str, None)
        download = take(options, "download", boolean, False)
        # A copy of the names, for `pop` takes them away
        others = {key: _plain(options.pop(key)) for key in list(options)}  # held against the class's signature
        return Torchvision(name, root=root, split=split, download=download, arguments=others)

    def names(self) -> tuple[str, ...]:
        """Return the datasets of the package that is installed."""
        return tuple(f"{name}?root=FOLDER" for name in parse_names("torchvision.datasets", "__all__"))

    def runs(self, name: str, options: Options) -> str:
        """LSUN reads pickles."""
        return "a pickled index" if name.upper().startswith("LSUN") else ""


class Torchvision(ImageSource):
    """A dataset of torchvision, for example CIFAR10, MNIST, SVHN, STL10, Flowers102 or ImageFolder.

    Ids are positions in the dataset, padded with zeros. Nothing is downloaded unless asked.

    Args:
        name: class in torchvision.datasets.
        root: folder of the dataset.
        split: "test", "train", ...: passed as `split`, or as `train` where the class knows only that.
        download: fetch the dataset where it is absent.
        arguments: further arguments of the class.

    Raises:
        HoldfastError: torchvision is not installed, no such dataset or argument, or the files are not there.
    """

    concurrent = True  # each item is read in its turn

    def __init__(
        self,
        name: str,
        *,
        root: str | None = None,
        split: str | None = None,
        download: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ):
        guard_torchvision()
        try:
            from torchvision import datasets
        except ModuleNotFoundError as error:
            raise missing("torchvision", "torchvision", f"torchvision:{name}") from error
        # Some names in `__all__` are functions
        names = [key for key in datasets.__all__ if isinstance(getattr(datasets, key), type)]
        if name not in names:
            raise unknown("torchvision dataset", name, names)
        self.name = name
        parameters = _arguments(getattr(datasets, name), root, split, download, dict(arguments or {}), name)
        try:
            self._dataset: Any = getattr(datasets, name)(**parameters)
        except (RuntimeError, OSError, ValueError, TypeError, ImportError) as error:
            raise Failed(
                f"torchvision:{name} cannot be opened: {_one_line(error)}; "
                "give ?root=FOLDER, and download=true to fetch it there"
            ) from error
        # What the class says it was given, or what `train` means
        chosen = parameters.get(
            "split", "train" if parameters.get("train") else "test" if "train" in parameters else ""
        )
        self.notes = (f"the split {chosen} is read; ?split= chooses another",) if chosen and split is None else ()
        self._width = max(6, len(str(len(self) - 1)))
        self.classes = tuple(map(str, getattr(self._dataset, "classes", ()) or ()))

    def __len__(self) -> int:
        return len(self._dataset)

    def __str__(self) -> str:
        return f"torchvision {self.name}: {len(self)} images"

    def id(self, index: int) -> str:
        """Return the position in the dataset, padded with zeros."""
        return f"{index:0{self._width}d}"

    def load(self, index: int) -> PIL.Image.Image | Tensor:
        """Return the picture, without transforms."""
        image = self._item(index)[0]
        if not isinstance(image, (PIL.Image.Image, Tensor)):
            raise Unsupported(f"torchvision:{self.name} holds {type(image).__name__}, expected images; take another")
        return image

    def label(self, index: int) -> int | None:
        """Return the class, where the dataset gives one number per image."""
        # By its own table where it has one, without a picture being read
        for name in ("targets", "labels", "_labels"):
            labels = getattr(self._dataset, name, None)
            if labels is not None and len(labels) == len(self):
                return class_number(labels[index], f"torchvision {self.name}, image {self.id(index)!r}")
        return class_number(self._item(index)[1], f"torchvision {self.name}, image {self.id(index)!r}")

    def _item(self, index: int) -> tuple[Any, Any]:
        try:
            with TURN:  # FakeData and others touch global state while they read
                image, target, *_ = self._dataset[index]
                return copy_picture(image), target
        except Exception as error:  # whatever the dataset's own reader raises
            raise BadData(
                f"cannot read image {self.id(index)!r} of torchvision:{self.name} ({_one_line(error)}); repair it"
            ) from error


def _arguments(
    cls: type, root: str | None, split: str | None, download: bool, arguments: dict[str, Any], name: str
) -> dict[str, Any]:
    """Map the options to what this dataset's constructor calls them."""
    accepted = inspect.signature(cls).parameters
    # Classes that pass keywords on do not say which their parents take
    passes_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
    for key in arguments:
        if key not in accepted and not passes_on:
            raise unknown(f"argument of torchvision:{name}", key, accepted)
    if "root" in accepted:
        arguments["root"] = root or "."
    if "split" in accepted:
        arguments["split"] = split or "test"
    elif "train" in accepted:
        if split not in (None, "train", "test"):
            raise BadValue(f"torchvision:{name} has the splits train and test, got split={split}")
        # Given by itself, as `train=true`, it stands
        arguments.setdefault("train", split == "train")
    elif split is not None:
        raise Conflict(f"torchvision:{name} has no splits, got split={split}; leave it out")
    if "download" in accepted or (download and passes_on):
        arguments["download"] = download
    elif download:
        raise Unsupported(f"torchvision:{name} is not downloaded by torchvision; give ?root=FOLDER that holds it")
    return arguments


def _plain(value: str) -> object:
    """Return an option that torchvision takes as what it looks like: bool, int, tuple of ints or text."""
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    numbers = value.split(",")
    if all(number.removeprefix("-").isdecimal() for number in numbers):
        return int(value) if len(numbers) == 1 else tuple(int(number) for number in numbers)
    return value


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
