"""From a spec such as `vectors:old.npy?truncate=128` to stored vectors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor

from holdfast.core.source_spec import Options, boolean, finish, one_of, parse, positive, take
from holdfast.runtime.errors import BadValue, Conflict, Missing
from holdfast.runtime.guess import path_meant
from holdfast.sources.vectors.faiss_index import SUFFIXES, read_index
from holdfast.sources.vectors.files import VECS, read_ids, read_npy, read_vecs
from holdfast.sources.vectors.tables import Read, read_csv, read_jsonl, read_parquet
from holdfast.sources.vectors.vectors import Vectors, number_rows, pour

PREFIX = "vectors:"

UNIT = 1e-3
"""By how much the length of a vector may differ from 1, where it was meant to be 1."""

ARRAYS: Mapping[str, Callable[[Path], Tensor]] = {".npy": read_npy, **dict.fromkeys(VECS, read_vecs)}
TABLES: Mapping[str, Callable[[Path, str | None, str | None], Read]] = {
    ".parquet": read_parquet,
    ".csv": read_csv,
    ".jsonl": read_jsonl,
}
"""What opens files by the ends of their names."""

ABOUT = {
    "vectors:FILE.npy": "an array [N, D] of NumPy; a side of compare-index and parity, or all of audit-index",
    "vectors:FILE.fvecs": "rows behind their lengths, as benchmarks of search have them; .bvecs too",
    "vectors:FILE.parquet": "a column of lists of numbers, or columns of numbers: ?vector=COLUMN id=COLUMN",
    "vectors:FILE.csv": "vectors such as [0.1,0.2], as pgvector exports them: ?vector=COLUMN id=COLUMN",
    "vectors:FILE.jsonl": "points of Qdrant, rows of Milvus or LanceDB: ?vector=COLUMN id=COLUMN",
    "vectors:FILE.faiss": "an index of FAISS, .index too: ?nprobe= ef= [extra faiss]",
}
"""What can be opened, a line each."""


def is_stored(spec: object) -> TypeGuard[str]:
    """Return whether a spec is of stored vectors.

    Example:
        >>> is_stored("vectors:old.npy"), is_stored("zoo:digits-simclr")
        (True, False)
    """
    return isinstance(spec, str) and spec.strip().lower().startswith(PREFIX)


def open_vectors(spec: str) -> Vectors:
    """Open stored vectors; they stay on disk.

    `vectors:FILE` is .npy (float16, float32, float64, int8 or uint8, [N, D]), .fvecs or .bvecs, .parquet (a column of
    lists of numbers, or columns of numbers), .csv (pgvector's "[0.1,0.2]"), .jsonl (points of Qdrant, rows of Milvus or
    LanceDB) or an index of FAISS (.faiss, .index). Ids are those of the table or the index, `?id=COLUMN`, or of
    `?ids=FILE`, a text with one in each line or a .npy file; else the numbers of the rows. `?vector=COLUMN` chooses one
    of several. `?truncate=128` keeps the first numbers (vectors of length 1 get it again), `?normalise=true` divides
    by the length, and `?quantise=int8|binary` rounds as indexes do: to 256 steps between the least and the largest
    value of each dimension, or to signs. `?nprobe=` and `?ef=` are of the search of an index.

    Raises:
        HoldfastError: a file that is not there or no such one, vectors of two lengths, ids that are there twice.
    """
    # What all files understand is taken first
    _, name, options = parse(spec)
    label = take(options, "label", str, spec)
    truncate, normalise = take(options, "truncate", positive, None), take(options, "normalise", boolean, False)
    quantise = take(options, "quantise", one_of("int8", "binary"), None)
    opened = _read(Path(name).expanduser(), options, spec)
    finish(options)
    return _change(replace(opened, name=label), truncate, normalise, quantise)


def _read(path: Path, options: Options, spec: str) -> Vectors:
    """Return the vectors of a file, by what its name ends with."""
    suffix, ids = path.suffix.lower(), None
    # By the end of the name, as people call files
    if suffix not in (*ARRAYS, *TABLES, *SUFFIXES):
        advice = "; save one array of it as .npy" if suffix == ".npz" else ""
        known = ", ".join((*ARRAYS, *TABLES, *SUFFIXES))
        raise BadValue(f"{spec}: expected a file of vectors ({known}), got {path.name!r}{advice}")
    # A folder is no file either
    if not path.is_file():
        raise Missing(f"{spec}: expected a file of vectors, found none at {str(path)!r}; {path_meant(path)}")
    if suffix in TABLES:
        vector, key = take(options, "vector", str, None), take(options, "id", str, None)
        values, ids, numbered = TABLES[suffix](path, vector, key)
        opened = Vectors(spec, values, ids, numbered)
    elif suffix in SUFFIXES:
        asked = {"nprobe": take(options, "nprobe", positive, None), "efSearch": take(options, "ef", positive, None)}
        held = read_index(path, {key: value for key, value in asked.items() if value is not None}, spec)
        opened = Vectors(spec, held.values, held.ids, held.numbered, held.search, (held.note,) if held.note else ())
    else:
        values = ARRAYS[suffix](path)
        opened = Vectors(spec, values, number_rows(len(values)), numbered=True)
    # Ids of a file of their own go before those of a table
    own = take(options, "ids", str, None)
    return opened if own is None else replace(opened, ids=read_ids(Path(own).expanduser()), numbered=False)


def _change(vectors: Vectors, truncate: int | None, normalise: bool, quantise: str | None) -> Vectors:
    """Return other vectors made of these, which then lie in a temporary file; the same where nothing is asked."""
    if truncate is None and not normalise and quantise is None:
        return vectors
    # To keep more than there is would say nothing
    if truncate is not None and truncate > vectors.dim:
        raise BadValue(
            f"{vectors.name}: expected truncate of at most {vectors.dim}, the numbers there are, got {truncate}"
        )
    # What an index finds is about its own codes
    if vectors.search is not None:
        raise Conflict(
            f"{vectors.name}: expected no truncate, normalise or quantise of an index that searches by itself; give "
            "them to the vectors that it was made of"
        )

    def change() -> Iterator[Tensor]:
        for rows in vectors.blocks():
            # Lengths as they were, before anything is cut off
            lengths = rows.norm(dim=1, keepdim=True)
            kept = rows[:, :truncate]
            # as Matryoshka representations are used: what had length 1 has it again
            again = torch.full_like(lengths, normalise, dtype=torch.bool)
            again |= (lengths - 1).abs() < UNIT
            yield torch.where(again, torch.nn.functional.normalize(kept, eps=1e-30), kept).float()

    return replace(vectors, values=pour(_quantise(change, quantise), vectors.name))


def _quantise(change: Callable[[], Iterator[Tensor]], kind: str | None) -> Iterator[np.ndarray]:
    """Yield rounded vectors: those that distances are computed of."""
    if kind == "int8":
        # The range of each dimension first, so everything is read twice
        ends = [(rows.amin(0), rows.amax(0)) for rows in change()]
        low, high = torch.stack([low for low, _ in ends]).amin(0), torch.stack([high for _, high in ends]).amax(0)
        # A dimension of one value has no step
        step = ((high - low) / 255).clamp_min(torch.finfo(torch.float32).tiny)
        for rows in change():
            yield (low + ((rows - low) / step).round() * step).numpy()
    elif kind == "binary":
        for rows in change():
            yield torch.where(rows > 0, 1, -1).to(torch.int8).numpy()
    else:
        for rows in change():
            yield rows.numpy()
