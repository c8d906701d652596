"""Datasets of the Hugging Face `datasets` package, from the hub or from a folder."""

from pathlib import Path
from typing import Any

import PIL.Image

from holdfast.core import ImageSource
from holdfast.runtime.errors import HoldfastError, missing, unknown


class HuggingFace(ImageSource):
    """One split of a Hugging Face dataset. Ids are positions in the split, padded with zeros.

    Args:
        name: "org/name" on the hub, a folder written by `save_to_disk`, or a folder that `load_dataset` reads.
        split: for example "test" or "test[:10%]"; without it "test", else "validation", else the only one.
        config: configuration of the dataset.
        column: the image column; without it the only one.
        label: the column of class numbers; without it the only ClassLabel column, if there is one.
        revision: branch, tag or commit on the hub.

    Raises:
        HoldfastError: `datasets` is not installed, the dataset cannot be opened, or has no such split or column.
    """

    def __init__(
        self,
        name: str,
        *,
        split: str | None = None,
        config: str | None = None,
        column: str | None = None,
        label: str | None = None,
        revision: str | None = None,
    ):
        try:
            import datasets
        except ModuleNotFoundError as error:
            raise missing("datasets", "datasets", f"hf:{name}") from error
        # the split, from a folder or the hub
        self.name = name
        try:
            if any((Path(name) / mark).is_file() for mark in ("state.json", "dataset_dict.json")):
                loaded: Any = datasets.load_from_disk(name)
            else:
                loaded = datasets.load_dataset(name, config, split=split, revision=revision)
        except Exception as error:  # network, hub, cache and format errors of many types
            raise HoldfastError(f"hf:{name} cannot be opened: {' '.join(str(error).split())}") from error
        if isinstance(loaded, datasets.DatasetDict):
            loaded = loaded[_split([str(key) for key in loaded], split, name)]
        elif split is not None and str(loaded.split) != split and (Path(name) / "state.json").is_file():
            raise HoldfastError(f"hf:{name} is the one split {loaded.split}, got split={split}; leave it out")
        # the column of images
        features = loaded.features
        images = [key for key, kind in features.items() if isinstance(kind, datasets.Image)]
        classes = [key for key, kind in features.items() if isinstance(kind, datasets.ClassLabel)]
        self.column = _column(column, images, list(features), "image column", name)
        if self.column not in images:
            raise HoldfastError(f"hf:{name}: expected an image column, {self.column!r} is {features[self.column]}")
        self._images: Any = loaded.select_columns([self.column])
        # labels, where one column of classes says which
        if label is not None:
            label = _column(label, classes, list(features), "label column", name)
        elif len(classes) == 1:
            label = classes[0]
        self._label = label
        self._labels: Any = None if label is None else loaded.select_columns([label])
        self.classes = tuple(getattr(features[label], "names", None) or ()) if label is not None else ()
        self._width = max(6, len(str(len(self) - 1)))

    def __len__(self) -> int:
        return len(self._images)

    def __str__(self) -> str:
        return f"Hugging Face {self.name}: {len(self)} images"

    def id(self, index: int) -> str:
        """Return the position in the split, padded with zeros."""
        return f"{index:0{self._width}d}"

    def load(self, index: int) -> PIL.Image.Image:
        """Return the decoded picture."""
        try:
            picture = self._images[index][self.column]
        except Exception as error:  # Pillow's and Arrow's errors
            raise HoldfastError(
                f"cannot read image {self.id(index)!r} of hf:{self.name} ({error}); repair it"
            ) from error
        if not isinstance(picture, PIL.Image.Image):
            raise HoldfastError(f"cannot read image {self.id(index)!r} of hf:{self.name} (it is empty); repair it")
        return picture

    def label(self, index: int) -> int | None:
        """Return the class number, where there is a label column."""
        if self._labels is None:
            return None
        value = self._labels[index][self._label]
        if not isinstance(value, int):
            raise HoldfastError(f"hf:{self.name}: expected integers in the column {self._label!r}, got {value!r}")
        return value


def _split(splits: list[str], split: str | None, name: str) -> str:
    if split is not None:
        if split not in splits:
            raise unknown(f"split of hf:{name}", split, splits)
        return split
    for usual in ("test", "validation"):
        if usual in splits:
            return usual
    if len(splits) == 1:
        return splits[0]
    raise HoldfastError(f"hf:{name} has the splits {', '.join(splits)}; choose with ?split=NAME")


def _column(column: str | None, fitting: list[str], columns: list[str], role: str, name: str) -> str:
    if column is not None:
        if column not in columns:
            raise unknown(f"{role} of hf:{name}", column, columns)
        return column
    if len(fitting) != 1:
        raise HoldfastError(
            f"hf:{name} has {len(fitting)} image columns among {', '.join(columns)}; choose with ?column=NAME"
        )
    return fitting[0]
