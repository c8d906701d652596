"""WebDataset shards: pictures in .tar files, read in any order through their offsets."""

import glob
import io
import os
import re
import tarfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import PIL.Image
from typing_extensions import override

from holdfast.core import ImageSource
from holdfast.core.data_source import DataSource
from holdfast.core.source_spec import Options, finish, take
from holdfast.runtime.doors import open_regular, regular
from holdfast.runtime.errors import BadData, Missing, os_reason
from holdfast.sources.data.shared.in_words import format_counts, plural
from holdfast.sources.data.shared.labels import class_number
from holdfast.sources.data.shared.pictures import EXTENSIONS, decode

_BRACES = re.compile(r"\{(\d+)\.\.(\d+)\}")


@dataclass(frozen=True)
class WebdatasetSource(DataSource):
    """WebDataset shards: pictures in .tar files."""

    about = "WebDataset shards, webdataset:path/{000..010}.tar?column=jpg; one .tar alone will do"
    suffixes = (".tar",)

    def open(self, name: str, options: Options) -> "WebDataset":
        """Open `webdataset:path/{000..010}.tar?column=jpg`."""
        column = take(options, "column", str, None)
        finish(options)
        return WebDataset(name, column=column)


class _Member(NamedTuple):
    shard: int
    offset: int
    size: int


class WebDataset(ImageSource):
    """All pictures of local, uncompressed .tar shards; opening reads the headers only.

    Files that share a path up to the first dot of their name are one sample, and that path is its id. `cls`
    files hold its class as a number. The `webdataset` package is not needed.

    Args:
        shards: a path with * ? [] wildcards and {000..010} ranges, or a list of such paths.
        column: extension of the pictures, such as "jpg" or "left.png", where a sample has several.

    Raises:
        HoldfastError: no such shard, a compressed or broken one, or no pictures in them.
    """

    concurrent = True

    def __init__(self, shards: str | os.PathLike[str] | Sequence[str], *, column: str | None = None):
        patterns = [os.fspath(shards)] if isinstance(shards, (str, os.PathLike)) else list(shards)
        self._shards = [shard for pattern in patterns for shard in _expand(pattern)]
        self._keys: list[str] = []
        self._images: list[_Member] = []
        self._classes: dict[str, _Member] = {}
        # By ending, for the note
        others: Counter[str] = Counter()
        for number, shard in enumerate(self._shards):
            self._index(number, shard, column, others)
        if not self._keys:
            wanted = f"*.{column}" if column else " ".join(EXTENSIONS)
            raise Missing(f"no images in {len(self._shards)} shards of {patterns[0]!r}; expected members {wanted}")

        notes = (
            [f"{plural(others.total(), 'member')} of the shards not read ({format_counts(others)})"] if others else []
        )
        if lone := len(self._classes.keys() - set(self._keys)):
            notes.append(f"{plural(lone, 'class file')} of samples without a picture not read")
        self.notes = tuple(notes)

    def __len__(self) -> int:
        return len(self._keys)

    def __str__(self) -> str:
        return f"{len(self._shards)} WebDataset shards: {len(self)} images"

    def id(self, index: int) -> str:
        """Return the sample's key."""
        return self._keys[index]

    @override
    def load(self, index: int) -> PIL.Image.Image:
        return decode(io.BytesIO(self._read(self._images[index])), self.id(index))

    def label(self, index: int) -> int | None:
        """Return the number in the sample's `cls` file, where it has one."""
        member = self._classes.get(self._keys[index])
        if member is None:
            return None
        text = self._read(member).decode(errors="replace").strip()
        if not re.fullmatch("-?[0-9]{1,18}", text):
            raise BadData(f"expected a class number in {self.id(index)}.cls, got {text!r}; repair it")
        return class_number(int(text), f"{self.id(index)}.cls")

    def _index(self, number: int, shard: Path, column: str | None, others: Counter[str]) -> None:
        """Note where the pictures and classes of a shard are, and count what else is in it."""
        try:
            size = shard.stat().st_size
            # "r:" refuses compressed archives, in which offsets mean nothing
            with tarfile.open(regular(shard), "r:") as archive:
                for member in archive:
                    folder, _, file = member.name.removeprefix("./").rpartition("/")
                    stem, _, extension = file.partition(".")
                    if not member.isfile() or not stem:
                        continue
                    # files of one sample share all of their name but the extensions
                    key = f"{folder}/{stem}" if folder else stem
                    if member.offset_data + member.size > size:  # what says that it is larger than its archive
                        raise tarfile.TarError(f"the header of {member.name!r} asks for {member.size:,} bytes")
                    place = _Member(number, member.offset_data, member.size)
                    # Capitals do not count, which cameras write
                    extension = extension.lower()
                    if extension == "cls":
                        self._classes[key] = place
                    elif extension == column.lower() if column else f".{extension}" in EXTENSIONS:
                        self._keys.append(key)
                        self._images.append(place)
                    else:
                        others[f".{extension}" if extension else "without an ending"] += 1
        except (tarfile.TarError, OSError) as error:
            raise BadData(
                f"cannot read the shard {str(shard)!r} ({error}); expected an uncompressed, complete .tar"
            ) from error

    def _read(self, member: _Member) -> bytes:
        shard = self._shards[member.shard]
        try:
            with open_regular(shard) as file:  # one handle per read: threads do not share a position
                file.seek(member.offset)
                return file.read(member.size)
        except OSError as error:
            raise BadData(f"cannot read the shard {str(shard)!r} ({os_reason(error)})") from error


def _expand(pattern: str) -> list[Path]:
    """Return the files of a pattern, in the order of its ranges and by name within them."""
    match = _BRACES.search(pattern)
    if match:
        low, high = match.groups()
        # As many digits as the range begins with
        numbers = (str(number).zfill(len(low)) for number in range(int(low), int(high) + 1))
        shards = [shard for n in numbers for shard in _expand(pattern[: match.start()] + n + pattern[match.end() :])]
    else:
        # A path that exists is meant as it is, even with brackets in it
        shards = [Path(pattern)] if Path(pattern).is_file() else [Path(name) for name in sorted(glob.glob(pattern))]
        shards = [shard for shard in shards if shard.is_file()]  # no pipes
    if not shards:
        raise Missing(f"expected .tar shards, found none at {pattern!r}; check the path")
    return shards
