"""Datasets of the Hugging Face `datasets` package, from the hub or from a folder."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import PIL.Image
from typing_extensions import override

from holdfast.core import ImageSource
from holdfast.core.data_source import DataSource
from holdfast.core.source_spec import Options, finish, take
from holdfast.runtime.errors import Ambiguous, BadData, BadValue, Conflict, Failed, first_line, missing, unknown
from holdfast.runtime.foreign import TURN
from holdfast.sources.data.shared.in_words import join_names, plural
from holdfast.sources.data.shared.labels import class_number
from holdfast.sources.data.shared.pictures import decode
from holdfast.sources.data.shared.reader import copy_picture


@dataclass(frozen=True)
class HfSource(DataSource):
    """Datasets of the Hugging Face `datasets` package, from the hub or from a folder."""

    about = "Hugging Face datasets, hf:org/name?split=&config=&column=&label=&revision=, or a folder"
    extra = "datasets"

    def open(self, name: str, options: Options) -> "HuggingFace":
        """Open `hf:org/name?split=test`."""
        wanted = {key: take(options, key, str, None) for key in ("split", "config", "column", "label", "revision")}
        finish(options)
        return HuggingFace(name, **wanted)


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

    concurrent = True  # rows are read in their turn, pictures decoded side by side

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
            # `load_dataset` does not read what `save_to_disk` wrote
            if any((Path(name) / mark).is_file() for mark in ("state.json", "dataset_dict.json")):
                loaded: Any = datasets.load_from_disk(name)
            else:
                loaded = datasets.load_dataset(name, config, split=split, revision=revision)
        except Exception as error:  # network, hub, cache and format errors of many types
            raise Failed(f"hf:{name} cannot be opened: {' '.join(str(error).split())}") from error
        notes = []
        if isinstance(loaded, datasets.DatasetDict):
            splits = [str(key) for key in loaded]
            chosen = _split(splits, split, name)
            loaded = loaded[chosen]
            if others := [key for key in splits if key != chosen]:
                notes.append(f"the split {chosen} is read, of {', '.join([chosen, *others])}")
        # One split alone, which cannot be chosen from
        elif split is not None and str(loaded.split) != split and (Path(name) / "state.json").is_file():
            raise Conflict(f"hf:{name} is the one split {loaded.split}, got split={split}; leave it out")
        # the column of images
        features = loaded.features
        images = [key for key, kind in features.items() if isinstance(kind, datasets.Image)]
        classes = [key for key, kind in features.items() if isinstance(kind, datasets.ClassLabel)]
        self.column = _column(column, images, list(features), "image column", name)
        if self.column not in images:
            raise BadValue(f"hf:{name}: expected an image column, {self.column!r} is {features[self.column]}")
        # encoded where they can be had so: Pillow decodes them side by side, and code of others only reads the rows
        self._images: Any = loaded.with_format(None).select_columns([self.column])
        self._encoded: Any = self._images.cast_column(self.column, datasets.Image(decode=False))
        self._mode = features[self.column].mode
        _check(self._images, name)
        # labels, where one column of classes says which
        if label is not None:
            label = _column(label, classes, list(features), "label column", name)
        elif len(classes) == 1:
            label = classes[0]
        elif classes:
            notes.append(f"no labels are read: choose one of the columns {join_names(classes)} with ?label=NAME")
        if others := [key for key in features if key not in (self.column, label)]:
            notes.append(f"{plural(len(others), 'column')} not read: {join_names(others)}")
        self.notes = tuple(notes)
        self._label = label
        self._labels: Any = None if label is None else loaded.with_format(None).select_columns([label])
        if self._labels is not None:
            _check(self._labels, name)
        self.classes = tuple(getattr(features[label], "names", None) or ()) if label is not None else ()
        self._width = max(6, len(str(len(self) - 1)))

    def __len__(self) -> int:
        return len(self._images)

    def __str__(self) -> str:
        return f"Hugging Face {self.name}: {len(self)} images"

    def id(self, index: int) -> str:
        """Return the position in the split, padded with zeros."""
        return f"{index:0{self._width}d}"

    @override
    def load(self, index: int) -> PIL.Image.Image:
        name = f"{self.id(index)} of hf:{self.name}"
        try:
            # In turn, for a dataset may read through one file handle; what decodes is outside
            with TURN:
                encoded = self._encoded[index][self.column] or {}
                file = _file(encoded)
                if file is None and encoded.get("path"):  # in an archive, which `datasets` knows to read
                    return copy_picture(self._images[index][self.column])
        except Exception as error:  # Pillow's and Arrow's errors
            raise BadData(f"cannot read image {self.id(index)!r} of hf:{self.name} ({error}); repair it") from error
        if file is None:
            raise BadData(f"cannot read image {self.id(index)!r} of hf:{self.name} (it is empty); repair it")
        picture = decode(file, name)
        # A column may ask for a mode, as `datasets` would decode it
        return picture if self._mode in (None, picture.mode) else picture.convert(self._mode)

    def label(self, index: int) -> int | None:
        """Return the class number, where there is a label column."""
        if self._labels is None:
            return None
        with TURN:
            value = self._labels[index][self._label]
        return class_number(value, f"hf:{self.name}, image {self.id(index)!r}, column {self._label!r}")


def _check(loaded: Any, name: str) -> None:
    """Refuse a column whose offsets lead out of its file, where Arrow would follow them, and the process end."""
    try:
        loaded.data.table.validate(full=True)
    except Exception as error:  # of Arrow
        raise BadData(f"hf:{name} is damaged: {first_line(error)}; save or download it again") from error


def _file(encoded: dict[str, Any]) -> BytesIO | Path | None:
    """Return what holds an encoded picture; None where that is nothing, or no file of its own."""
    if encoded.get("bytes") is not None:
        return BytesIO(encoded["bytes"])
    path = encoded.get("path")
    return Path(path) if path and Path(path).is_file() else None


def _split(splits: list[str], split: str | None, name: str) -> str:
    if split is not None:
        if split not in splits:
            raise unknown(f"split of hf:{name}", split, splits)
        return split
    # The parts that models are tested by, before what they may have learned from
    for usual in ("test", "validation"):
        if usual in splits:
            return usual
    if len(splits) == 1:
        return splits[0]
    raise Ambiguous(f"hf:{name} has the splits {', '.join(splits)}; choose with ?split=NAME")


def _column(column: str | None, fitting: list[str], columns: list[str], role: str, name: str) -> str:
    if column is not None:
        if column not in columns:
            raise unknown(f"{role} of hf:{name}", column, columns)
        return column
    if len(fitting) != 1:
        raise Ambiguous(
            f"hf:{name} has {len(fitting)} image columns among {', '.join(columns)}; choose with ?column=NAME"
        )
    return fitting[0]
