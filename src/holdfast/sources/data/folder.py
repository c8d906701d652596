"""A folder of picture files, flat or with one folder per class."""

import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import PIL.Image
from typing_extensions import override

from holdfast.core import ImageSource
from holdfast.core.data_source import DataSource
from holdfast.core.source_spec import Options, finish
from holdfast.runtime.errors import BadData, BadValue, Missing, os_reason
from holdfast.runtime.guess import path_meant
from holdfast.sources.data.shared.in_words import format_counts, plural
from holdfast.sources.data.shared.pictures import EXTENSIONS, decode, shape_in
from holdfast.storage.record_file import OWN, holds_run

_SAVED = ("dataset_info.json", "dataset_dict.json", "state.json")


@dataclass(frozen=True)
class FolderSource(DataSource):
    """Pictures below a folder, whose path needs no source before it."""

    about = "pictures below a folder, flat or one folder per class; the path alone will do"

    def open(self, name: str, options: Options) -> "Folder":
        """Open `folder:PATH`."""
        finish(options)
        return Folder(name)


class Folder(ImageSource):
    """All picture files below a folder, by name; nothing is read before it is asked for.

    Ids are relative paths with "/", in Unicode's composed form, so that they are equal on every machine. Where
    every picture lies in a folder, the first folder of its path is its class, numbered by name. Links are
    followed, each folder is entered once. Hidden files and folders (".x") are left out, and so is what an audit wrote
    into a run folder, which may lie among the pictures.

    Args:
        path: the folder.

    Attributes:
        ignored: how many visible files are no pictures, by their extension; also told in `notes`.
        runs: how many run folders there are.
        classes: names of the classes; empty where pictures lie in the folder itself.

    Raises:
        HoldfastError: no such folder, or no picture in it.
    """

    concurrent = True

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        if not self.path.is_dir():
            raise Missing(f"expected a folder of images, found none at {str(path)!r}; {path_meant(path)}")
        self.ignored, self.runs = Counter[str](), 0
        self._hidden = self._again = 0
        files = list(self._walk(self.path, "", set()))
        # By composed names: systems spell accents differently, and would order them so
        self._files = sorted(files, key=_name)
        if not self._files:
            if any((self.path / name).exists() for name in _SAVED) or any(self.path.glob("*.parquet")):
                raise BadValue(f"{str(path)!r} looks like a Hugging Face dataset; write --data hf:{path}")
            raise Missing(
                f"no images in the folder {str(path)!r} (other files: {format_counts(self.ignored) or 'none'}); "
                f"expected files named {' '.join(EXTENSIONS)}"
            )
        # Where all pictures are in folders, the first one of each path is a class
        tops = {_name(file).partition("/")[0] for file in self._files}
        outside = sum("/" not in file for file in self._files)
        self.classes = [] if outside else sorted(tops)
        self.notes = tuple(self._notes(outside))
        self._class_of = {name: number for number, name in enumerate(self.classes)}

    def __len__(self) -> int:
        return len(self._files)

    def __str__(self) -> str:
        return f"folder {self.path.name or self.path}: {len(self)} images"

    def id(self, index: int) -> str:
        """Return the path relative to the folder."""
        return _name(self._files[index])

    @override
    def load(self, index: int) -> PIL.Image.Image:
        return decode(self.path / self._files[index], self.id(index))

    def files(self, indices: Sequence[int]) -> list[Path]:
        """Return the folder, whose names decide which images there are, and the pictures."""
        return [self.path, *(self.path / self._files[index] for index in indices)]

    def shape(self, index: int) -> tuple[int, int, int]:
        """Return the shape of the picture, which is not decoded for it."""
        return shape_in(self.path / self._files[index])

    def label(self, index: int) -> int | None:
        """Return the number of the class folder; None in a flat folder."""
        return self._class_of.get(self.id(index).partition("/")[0])

    def _notes(self, outside: int) -> Iterator[str]:
        """Yield what is not read; so many pictures lie in no folder of a class."""
        if count := self.ignored.total():
            by_name = "is not a picture by its name" if count == 1 else "are not pictures by their names"
            yield f"{plural(count, 'file')} {by_name} ({format_counts(self.ignored)})"
        if self._hidden:
            yield f"{plural(self._hidden, 'hidden picture')}, with a name that begins with a dot, not read"
        if self._again:
            yield f"{plural(self._again, 'link')} into a folder that was read already not followed"
        if 0 < outside < len(self._files):
            yield f"no classes are read: {outside:,} of {plural(len(self._files), 'picture')} in no folder of a class"

    def _walk(self, folder: Path, prefix: str, entered: set[tuple[int, int]]) -> Iterator[str]:
        facts = folder.stat()
        if (facts.st_dev, facts.st_ino) in entered:  # a link back into a folder that was read already
            self._again += 1
            return
        entered.add((facts.st_dev, facts.st_ino))
        try:
            # In one order, so that of two links to a folder the same one is followed everywhere
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise BadData(f"cannot read the folder {str(folder)!r} : {os_reason(error)}") from error
        # What an audit wrote is no picture of the user's
        own = OWN if holds_run(folder) else frozenset[str]()
        self.runs += bool(own)
        for entry in entries:
            # By the ending alone, for to open a million files would take long
            ending = os.path.splitext(entry.name)[1].lower()
            if entry.name in own:
                continue
            if entry.name.startswith("."):
                self._hidden += ending in EXTENSIONS
            elif _is_folder(entry):
                yield from self._walk(Path(entry.path), f"{prefix}{entry.name}/", entered)
            elif ending in EXTENSIONS:
                yield prefix + entry.name
            else:
                self.ignored[ending or "without an ending"] += 1


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _name(file: str) -> str:
    """Return the file's path in composed Unicode; bytes that are not UTF-8 are spelled out."""
    if file.isascii():  # as most are: there may be a million
        return file
    return unicodedata.normalize("NFC", os.fsencode(file).decode("utf-8", "backslashreplace"))
