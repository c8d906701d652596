"""What `holdfast compare-index` wrote below a folder: each comparison, when it was made, and what came of it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.report.index_sentences import sentences
from holdfast.runtime.doors import read_bytes
from holdfast.runtime.errors import UnreadableRecord
from holdfast.storage.filesystem import Folder
from holdfast.storage.index_file import INDEX, read_index
from holdfast.storage.record_file import OWN
from holdfast.workflows.view.runs import id_of


@dataclass(frozen=True)
class Upgrade:
    """A comparison of two encoders of an index.

    Attributes:
        id: its name in addresses.
        place: its name on pages.
        folder: where it is.
        date: when it was made: "2026-03-02 10:12", UTC; "" where it cannot be read.
        answer: what it found, in a sentence; or why it cannot be read.
        passed: whether all that was required holds; None where nothing was, or where it cannot be read.
        readable: whether it can be read.
    """

    id: str
    place: str
    folder: Path
    date: str
    answer: str
    passed: bool | None
    readable: bool


def find_upgrades(root: Path) -> list[Upgrade]:
    """Return all comparisons below a folder, the latest first; links are not followed."""
    found = [_read(root, folder) for folder in _folders(root)]
    return sorted(found, key=lambda upgrade: (upgrade.date, upgrade.place), reverse=True)


def _folders(root: Path) -> Iterator[Path]:
    """Yield the folders with such a record: others may have a file of that name, too."""
    for place, folders, files in os.walk(root):
        folder = Path(place)
        # Whoever writes the folder could lead out of it by a link
        is_upgrade = INDEX in files and not (folder / INDEX).is_symlink() and _is_record(folder / INDEX)
        folders[:] = [name for name in folders if not name.startswith(".") and not (is_upgrade and name in OWN)]
        if is_upgrade:
            yield folder


def _is_record(path: Path) -> bool:
    try:
        data = read_bytes(path)
    except OSError:
        return False
    # Not parsed, for there may be many, and large ones
    return all(word in data for word in (b'"holdfast"', b'"translation"'))


def _read(root: Path, folder: Path) -> Upgrade:
    place = folder.relative_to(root).as_posix()
    place = root.name if place == "." else place
    try:
        record = read_index(Folder(folder))
    except UnreadableRecord as error:
        return Upgrade(id_of(place), place, folder, "", str(error).replace(f"{root}/", ""), None, False)
    # Nothing was required, so nothing is passed
    asked = record.findings or record.canaries
    date = record.finished[:16].replace("T", " ")
    return Upgrade(id_of(place), place, folder, date, sentences(record)[0], record.passed if asked else None, True)
