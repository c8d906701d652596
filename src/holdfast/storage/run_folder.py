"""The run folder: files appear whole or not at all, so a kill leaves no half file."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.torch
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Table
from holdfast.runtime.doors import digest_file, open_tensors, regular
from holdfast.runtime.errors import BadPlace, first_line, os_reason
from holdfast.runtime.exit_status import ExitStatus
from holdfast.runtime.privacy import public
from holdfast.storage.claim import Claim, claim
from holdfast.storage.columns import numbers, texts, values
from holdfast.storage.documents import parse_json
from holdfast.storage.filesystem import Folder, encode_text
from holdfast.storage.record_file import OWN, RECORD, REPORT
from holdfast.storage.seal import SEAL, SHARD, seal_of

ROWS = 2**14
"""Of a table, in one of its row groups: what a writer holds in memory."""


class StoreError(BadPlace):
    """The run folder cannot be written or read; ends an audit, keeping what is already stored."""

    status = ExitStatus.NOTHING


class OtherEncoder(StoreError):
    """The run folder holds the record of an encoder of this name that had other weights, or other code."""

    status = ExitStatus.USAGE

    @classmethod
    def of(cls, name: str) -> Self:
        """Return the error for an encoder; with a message alone, errors come through from other processes."""
        return cls(
            f"{name}: the folder holds the record of an encoder of this name with other weights or other code; choose "
            "another --out, or add --overwrite (overwrite=True), which replaces the old record"
        )


@contextmanager
def _store_error(doing: str, place: str, advice: str = "") -> Iterator[None]:
    """Raise faults of the file system as one that ends an audit."""
    try:
        yield
    except (OSError, safetensors.SafetensorError) as error:
        raise StoreError(f"cannot {doing} {place!r}: {os_reason(error)}{advice}") from error


def digest(value: Any) -> str:
    """Return the first 16 hex digits of the SHA-256 of JSON data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def files_read(spec: Any) -> list[str]:
    """Return the fingerprints of the files that a part is read from: heads, mixtures, folders of textures."""
    if isinstance(spec, Mapping):
        values = [spec.get(key) for key in ("path", "textures")]
        paths = [Path(path) for path in values if isinstance(path, str) and path]
        files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
        own = [digest_file(file) for file in files if file.is_file()]
        own += _fingerprint_corruption(spec)
        return own + [fingerprint for inner in spec.values() for fingerprint in files_read(inner)]
    return [fingerprint for inner in spec for fingerprint in files_read(inner)] if isinstance(spec, list) else []


def _fingerprint_corruption(spec: Mapping[str, Any]) -> list[str]:
    """Return fingerprints of what a part reads in a folder of `files`: what is called as its `corruption` is."""
    if not spec.get("files"):
        return []
    name, inside = str(spec.get("corruption")), Path(spec["files"])
    own = [digest_file(file) for file in inside.glob(f"{name}.npy")]
    # of pictures, which may be a million, their names and sizes
    folders = [place / str(spec.get("severity")) for deep in (name, f"*/{name}") for place in inside.glob(deep)]
    pictures = [file for place in folders for file in sorted(place.rglob("*"))]
    return [*own, digest([[str(file.relative_to(inside)), file.stat().st_size] for file in pictures])]


class Store:
    """A run folder.

    Args:
        place: a path or a URL, see `Folder`; a local folder is created where it is missing.

    Attributes:
        files: the folder.

    Raises:
        StoreError: a folder that cannot be created or written.
    """

    def __init__(self, place: str | Path):
        self.files = Folder(place)
        with _store_error("create the folder", str(self.files)):
            self.files.make()
            self.files.check_places([RECORD, REPORT, *(f"{name}/any" for name in OWN)])
        probe = f"plan.{os.getpid()}.probe"
        self.write_text(probe, ".")
        self.delete(probe)

    @property
    def folder(self) -> Path:
        """The path of a local folder."""
        if self.files.local is None:
            raise StoreError(f"{self.files}: expected a local folder here; only audits write to other file systems")
        return self.files.local

    def write(self, name: str, put: Callable[[Path], object]) -> None:
        """Write a file through `put`, which gets a path beside the final one."""
        with _store_error("write", self.files.format_path(name), "; what is already stored is kept"):
            self.files.write(name, put)

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a file of bytes, see `write`."""
        self.write(name, lambda path: path.write_bytes(data))

    def write_text(self, name: str, text: str) -> None:
        """Write a file of text, see `write`."""
        self.write_bytes(name, encode_text(text))

    def delete(self, name: str) -> None:
        """Delete a file; nothing where there is none."""
        with _store_error("delete", self.files.format_path(name)):
            self.files.delete(name)

    def claim(self, plan: str, *, shared: bool = False, say: Callable[[str], object] = lambda text: None) -> Claim:
        """Claim the folder for one audit, see `claim`."""
        with _store_error("write", self.files.format_path("cache")):
            return claim(self.files, plan, shared=shared, say=say)

    def sweep(self) -> None:
        """Delete what killed processes left half written, see `Folder.sweep`."""
        with _store_error("clean the folder", str(self.files)):
            self.files.sweep()

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        with _store_error("look for", self.files.format_path(name)):
            return self.files.exists(name)

    def names(self, under: str) -> list[str]:
        """Return the names of all files below a subfolder."""
        with _store_error("list", self.files.format_path(under)):
            return self.files.files(under)

    def write_json(self, name: str, value: Any) -> None:
        """Write JSON, without credentials and places, see `public`; not-a-number is refused."""
        text = json.dumps(public(value), indent=1, allow_nan=False, ensure_ascii=False)
        self.write_text(name, text)

    def read_json(self, name: str) -> Any:
        """Return JSON; None where the file is missing or damaged."""
        try:
            return parse_json(self.files.read(name))
        except (OSError, ValueError):
            return None

    def write_table(self, name: str, ids: Sequence[str], table: Mapping[str, Tensor]) -> None:
        """Write a table as Parquet, with the image ids as its first column, some rows at a time."""
        arrays = {key: value.detach().cpu().numpy() for key, value in table.items()}

        def rows(start: int) -> pa.Table:
            part = slice(start, start + ROWS)
            return pa.table({"id": texts(ids[part])} | {key: numbers(value[part]) for key, value in arrays.items()})

        def put(path: Path) -> None:
            first = rows(0)
            with path.open("wb") as file, pq.ParquetWriter(file, first.schema) as writer:
                writer.write_table(first)
                for start in range(ROWS, len(ids), ROWS):
                    writer.write_table(rows(start))

        self.write(name, put)

    def read_table(self, name: str) -> Table:
        """Return the columns of a table that this process, or a worker of it, has written."""
        with _store_error("read", self.files.format_path(name)), self.files.fetch(name) as path:
            try:
                with pq.ParquetFile(regular(path)) as file:
                    keys = [key for key in file.schema_arrow.names if key != "id"]
                    return {key: torch.from_numpy(values(file.read([key])[key])) for key in keys}
            except pa.ArrowException as error:
                raise OSError(first_line(error)) from error

    def write_picture(self, name: str, pixels: Float[Tensor, "channels height width"]) -> None:
        """Write pixels in [0, 1] as a PNG picture; with four channels the last is opacity."""
        values = (pixels.clamp(0, 1) * 255).round().to(torch.uint8).cpu()
        picture = PIL.Image.fromarray((values[0] if len(values) == 1 else values.permute(1, 2, 0)).numpy())
        self.write(name, lambda path: picture.save(path, format="PNG"))

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> None:
        """Write tensors with facts about them, sealed: the file says which one it is and what is in it."""
        ready, places = dict[str, Tensor](), set[int]()
        for key, value in tensors.items():
            own = value.detach().cpu().contiguous()
            place = own.untyped_storage().data_ptr()
            ready[key] = own.clone() if place in places else own  # two read-outs may be one tensor
            places.add(place)
        sealed = {**facts, SEAL: _seal(name, ready, facts)}
        self.write(name, lambda path: safetensors.torch.save_file(ready, path, sealed))

    def read_tensors(self, name: str) -> tuple[dict[str, Tensor], dict[str, str]] | None:
        """Return tensors and facts; see `read_tensors`."""
        return read_tensors(self.files, name)

    def forget_damaged(self, under: str) -> int:
        """Delete the tensors below a subfolder that are not as they were written, and return how many there were."""
        names = [name for name in self.names(under) if name.endswith(SHARD)]
        damaged = [name for name in names if self.read_tensors(name) is None and self.exists(name)]
        for name in damaged:
            self.delete(name)
        return len(damaged)


def read_tensors(files: Folder, name: str) -> tuple[dict[str, Tensor], dict[str, str]] | None:
    """Return tensors and facts about them; None where the file is missing, damaged or another one."""
    try:
        with files.fetch(name) as path, open_tensors(path) as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            facts = dict(file.metadata() or {})
    except (OSError, safetensors.SafetensorError, ValueError, RuntimeError, TypeError, AttributeError, KeyError):
        return None  # a header of which a byte is wrong may name a type or a shape that nobody knows
    seal = facts.pop(SEAL, None)
    return (tensors, facts) if seal == _seal(name, tensors, facts) else None


def _seal(name: str, tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> str:
    """Return the seal of a file of tensors, see `seal_of`."""
    shapes = {key: [str(value.dtype), list(value.shape)] for key, value in tensors.items()}
    ordered = (value for _, value in sorted(tensors.items()))
    flat = (value.reshape(-1).clone(memory_format=torch.contiguous_format) for value in ordered)
    return seal_of(name, facts, shapes, (value.view(torch.uint8).numpy().data for value in flat))
