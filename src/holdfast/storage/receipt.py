"""The receipt of an audit: what its answer was made of, so that the same request, asked again, finds it unchanged.

To look takes no torch: files are held against their SHA-256, folders against the names in them, shards against their
seals. What is not as it was, or not known, makes no receipt stand: the audit is then made, from what is stored.
"""

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from holdfast.runtime.doors import digest_file, real
from holdfast.runtime.errors import UnreadableRecord
from holdfast.storage.documents import parse_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import Record
from holdfast.storage.record_file import read_record
from holdfast.storage.seal import SHARD, add_seal, digest_of, intact, unbroken

RECEIPT = "cache/receipt.json"

YOUNG = 0.05
"""Seconds by which a file must be older than an audit that read it: clocks of file systems tick more slowly."""

Heard = Callable[[int, int], object]
"""Told how many bytes have been read, and of how many."""


def write_receipt(
    folder: Folder,
    request: Any,
    inputs: Iterable[Path],
    files: Iterable[str],
    began: float,
    heard: Heard = lambda done, total: None,
) -> None:
    """Leave a receipt in a local run folder, unless an input has changed since the audit began.

    Args:
        folder: the run folder.
        request: what was asked, as JSON data.
        inputs: files that the answer depends on, and folders on whose names it does.
        files: of the run folder that are the answer, by name.
        began: when the audit did, in seconds since the epoch.
        heard: told how far the inputs have been read.
    """
    paths = [real(path) for path in inputs]
    count = _counter(paths, heard)
    digests = {str(path): _digest(path, count) for path in paths}
    if (
        folder.local is None
        or None in digests.values()
        or max(map(_find_last_change, paths), default=0.0) > began - YOUNG
    ):
        return
    receipt = {
        "request": _request(request),
        "software": _software(),
        "inputs": digests,
        "shards": _shards(folder),
        "files": {name: digest_of(folder.read(name)) for name in files},
    }
    text = json.dumps(add_seal(receipt), indent=1)
    folder.write_text(RECEIPT, text)


def standing(folder: Folder, request: Any, heard: Heard = lambda done, total: None) -> Record | None:
    """Return the record of a local run folder if it answers a request, and all that it was made of is as it was."""
    if folder.local is None:
        return None
    try:
        receipt = parse_json(folder.read(RECEIPT))
        stands = (
            unbroken(receipt)
            and receipt["request"] == _request(request)
            and receipt["software"] == _software()
            and receipt["shards"] == _shards(folder)
        )
        if not stands:
            return None
        shards = {name: folder.local / name for name in receipt["shards"]}
        count = _counter([*map(Path, receipt["inputs"]), *shards.values()], heard)
        stands = (
            all(_digest(Path(path), count) == digest for path, digest in receipt["inputs"].items())
            and all(digest_of(folder.read(name)) == digest for name, digest in receipt["files"].items())
            and all(_count_file(path, count) and intact(path, name) for name, path in shards.items())
        )
        return read_record(folder) if stands else None
    except (OSError, ValueError, UnreadableRecord):
        return None


def _request(request: Any) -> str:
    """Return the digest of what is asked: where, and under which settings of the environment."""
    settings = {key: value for key, value in os.environ.items() if key.startswith("HOLDFAST_")}
    return digest_of(json.dumps([request, os.getcwd(), settings], sort_keys=True).encode())


def _software() -> str:
    """Return the digest of what computes: Python, the versions of all packages, and Holdfast's own code."""
    places = [place for place in dict.fromkeys(sys.path) if os.path.isdir(place)]
    packages = [name for place in places for name in os.listdir(place) if name.endswith((".dist-info", ".egg-info"))]
    total = hashlib.sha256(json.dumps([sys.version, platform.machine(), sys.platform, sorted(packages)]).encode())
    own = Path(__file__).parents[1]
    for path in sorted(path for path in own.rglob("*") if path.suffix != ".pyc" and path.is_file()):
        total.update(f"{path.relative_to(own)} {digest_file(path)}\n".encode())
    return total.hexdigest()


def _shards(folder: Folder) -> list[str]:
    return [name for name in folder.files("cache") if name.endswith(SHARD)]


def _counter(paths: Iterable[Path], heard: Heard) -> Callable[[int], object]:
    """Return what counts the bytes that are read of some files, and tells how many there are."""
    total, done = sum(path.stat().st_size for path in paths if path.is_file()), 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        heard(done, total)

    return count


def _count_file(path: Path, count: Callable[[int], object]) -> bool:
    """Count a file that is read at once, and which is there."""
    count(path.stat().st_size)
    return True


def _digest(path: Path, count: Callable[[int], object]) -> str | None:
    """Return the SHA-256 of a file, or of the names below a folder; None where it cannot be told."""
    try:
        if not path.is_dir():
            return digest_file(path, count)
        below = list(os.walk(path, onerror=_refuse))
        if any(os.path.islink(os.path.join(place, name)) for place, folders, _ in below for name in folders):
            return None  # what lies where they lead is not looked at
        names = sorted(os.path.join(place, name) for place, folders, files in below for name in (*folders, *files))
        return digest_of(os.fsencode("\0".join(names)))
    except OSError:
        return None


def _find_last_change(path: Path) -> float:
    """Return when a file, or one of the folders below a folder, was last changed, in seconds since the epoch."""
    places = [place for place, _, _ in os.walk(path)] if path.is_dir() else [path]
    return max(max(facts.st_mtime, facts.st_ctime) for facts in map(os.stat, places))


def _refuse(error: OSError) -> None:
    raise error
