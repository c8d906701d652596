"""Tables of vectors as databases export them: Parquet, CSV (pgvector) and JSON lines (Qdrant, Milvus, LanceDB)."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from holdfast.core.ids import Ids
from holdfast.runtime.doors import open_regular, regular
from holdfast.runtime.errors import Ambiguous, BadData, first_line, os_reason, unknown
from holdfast.sources.vectors.vectors import number_rows, pour

ROWS = 4096
"""Rows that are read together."""

USUAL = ("id", "_id", "pk", "key")
"""What databases call the column of ids."""


class Read(NamedTuple):
    """The vectors of a table, and their ids; whether these are no more than the numbers of the rows."""

    values: Tensor
    ids: Sequence[str]
    numbered: bool


Row = dict[str, object]
"""The cells of a row, by the names of their columns."""


class Chosen(NamedTuple):
    """The columns of vectors, one or several, and that of ids; None: there is none."""

    vector: list[str]
    id: str | None


def read_parquet(path: Path, vector: str | None, id: str | None) -> Read:
    """Return the vectors of a Parquet file: a column of lists, or all columns of numbers but for that of ids."""
    try:
        file = pq.ParquetFile(regular(path))
        # What columns could be vectors, numbers, or ids
        kinds = {column.name: column.type for column in file.schema_arrow}
        lists = [name for name, kind in kinds.items() if _is_list(kind)]
        numbers = [name for name, kind in kinds.items() if pa.types.is_floating(kind)]
        others = [name for name, kind in kinds.items() if pa.types.is_integer(kind) or pa.types.is_string(kind)]
        chosen = _choose(path, list(kinds), lists, numbers, others, vector, id)
        ids: list[Ids] = []

        def blocks() -> Iterator[np.ndarray]:
            start = 0
            # No other column is read, however large
            columns = [*chosen.vector, *([chosen.id] if chosen.id else [])]
            for batch in file.iter_batches(ROWS, columns=columns):
                if chosen.id:
                    ids.append(Ids(map(str, batch.column(chosen.id).to_pylist())))
                yield _numbers([batch.column(name) for name in chosen.vector], path, start)
                start += len(batch)

        values = pour(_of_one_length(blocks(), path), str(path))
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error
    return Read(values, Ids(chain.from_iterable(ids)) if chosen.id else number_rows(len(values)), not chosen.id)


def _is_list(kind: pa.DataType) -> bool:
    some = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return some and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def _numbers(columns: list[Any], path: Path, start: int) -> np.ndarray:
    """Return the numbers of some rows, [n, D]."""
    # A row without a vector would become one of NaN
    for column in columns:
        if column.null_count:
            row = start + column.is_null().to_pylist().index(True)
            raise BadData(f"{str(path)!r}: expected a vector in every row, got none in row {row}")
    # Each column is a dimension
    if not _is_list(columns[0].type):
        return np.stack([column.to_numpy(zero_copy_only=False) for column in columns], 1).astype(np.float32)
    flat = columns[0].flatten()
    if flat.null_count:
        raise BadData(f"{str(path)!r}: expected numbers, got a vector with missing ones behind row {start}")
    # Lists may have any length; vectors have one
    sizes = columns[0].value_lengths().to_numpy(zero_copy_only=False)
    if (sizes != sizes[0]).any():
        row = int((sizes != sizes[0]).argmax())
        raise _other_length(path, start + row, int(sizes[0]), int(sizes[row]))
    return flat.to_numpy(zero_copy_only=False).astype(np.float32).reshape(len(sizes), -1)


def read_csv(path: Path, vector: str | None, id: str | None) -> Read:
    """Return the vectors of a CSV file: a column of texts such as "[0.1,0.2]", or all columns but for that of ids."""
    return _read_lines(path, _csv_rows(path), vector, id)


def read_jsonl(path: Path, vector: str | None, id: str | None) -> Read:
    """Return the vectors of a file with a JSON object in each line: an entry of each is its vector, one its id."""
    return _read_lines(path, _json_rows(path), vector, id)


def _csv_rows(path: Path) -> Iterator[Row]:
    """Yield rows by the names of their columns: 0, 1, ... without a header."""
    with io.TextIOWrapper(open_regular(path), "utf-8-sig", newline="") as file:
        lines = (line for line in csv.reader(file) if line)
        # A header has neither vectors nor numbers behind its first cell
        first = next(lines, [])
        header = not any(_is_vector(cell) for cell in first) and not all(map(_is_number, first[1:]))
        names = first if header else list(map(str, range(len(first))))
        for number, line in enumerate(lines if header else chain([first] if first else [], lines)):
            if len(line) != len(names):
                raise BadData(
                    f"{str(path)!r}: expected {len(names)} cells as in row 0, got {len(line)} in row {number}"
                )
            yield {name: _cell(text) for name, text in zip(names, line, strict=True)}


def _cell(text: str) -> Any:
    """Return a vector as pgvector or an array of PostgreSQL writes it, a number, or the text itself."""
    return text.strip()[1:-1].split(",") if _is_vector(text) else text


def _is_vector(text: str) -> bool:
    return text.strip()[:1] + text.strip()[-1:] in ("[]", "{}")


def _is_number(text: object) -> bool:
    try:
        return isinstance(text, str | int | float) and float(text) is not None
    except ValueError:
        return False


def _json_rows(path: Path) -> Iterator[Row]:
    with io.TextIOWrapper(open_regular(path), "utf-8") as file:
        for number, line in enumerate(filter(str.strip, file)):
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                raise BadData(
                    f"{str(path)!r}: expected a JSON object in each line, got {line.strip()[:60]!r} in row {number}"
                )
            # several vectors of a point have names
            nested = {
                f"{key}.{name}": inner
                for key, value in row.items()
                if isinstance(value, dict)
                for name, inner in value.items()
            }
            yield {key: value for key, value in row.items() if not isinstance(value, dict)} | nested


def _read_lines(path: Path, rows: Iterator[Row], vector: str | None, id: str | None) -> Read:
    """Return the vectors of rows that are read one by one."""
    try:
        # The first row says what columns there are
        first = next(rows, None)
        if first is None:
            raise BadData(f"{str(path)!r}: expected vectors, got an empty file")
        # Lists are vectors; all else are numbers or texts
        lists = [name for name, value in first.items() if isinstance(value, list)]
        numbers = [name for name, value in first.items() if name not in USUAL and _is_number(value)]
        # without a header the first column is the id of the others
        others = [name for name in first if name in USUAL or name not in lists + numbers] or numbers[:1]
        chosen = _choose(
            path, list(first), lists, [name for name in numbers if name not in others[:1]], others, vector, id
        )
        ids: list[Ids] = []
        values = pour(_of_one_length(_parse(path, chain([first], rows), chosen, ids), path), str(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, error) from error
    return Read(values, Ids(chain.from_iterable(ids)) if chosen.id else number_rows(len(values)), not chosen.id)


def _parse(path: Path, rows: Iterable[Row], chosen: Chosen, ids: list[Ids]) -> Iterator[np.ndarray]:
    """Yield the numbers of rows, some at a time, and keep their ids."""
    start, rest = 0, iter(rows)
    while some := list(islice(rest, ROWS)):
        vectors: list[np.ndarray] = []
        for number, row in enumerate(some, start):
            # A list, or a number of each column
            given = [row.get(name) for name in chosen.vector]
            try:
                numbers = given[0] if isinstance(given[0], list) else given
                # NumPy would take what is absent for NaN
                if None in numbers:
                    raise ValueError("a number is absent")
                vectors.append(np.array(numbers, np.float32))
            except (TypeError, ValueError) as error:
                raise BadData(
                    f"{str(path)!r}: expected a vector of numbers, got {str(given)[:60]} in row {number}"
                ) from error
            # Within a block, that rows can be stacked
            if vectors[-1].shape != vectors[0].shape:
                raise _other_length(path, number, vectors[0].size, vectors[-1].size)
            if chosen.id and row.get(chosen.id) is None:
                raise BadData(f"{str(path)!r}: expected an id in every row, got none in row {number}")
        if chosen.id:
            ids.append(Ids(str(row[chosen.id]) for row in some))
        start += len(some)
        yield np.stack(vectors)


def _of_one_length(blocks: Iterator[np.ndarray], path: Path) -> Iterator[np.ndarray]:
    """Yield blocks whose rows are as long as those of the first one."""
    dim, row = None, 0
    for block in blocks:
        if dim not in (None, block.shape[1]):
            raise _other_length(path, row, dim, block.shape[1])
        dim, row = block.shape[1], row + len(block)
        yield block


def _other_length(path: Path, row: int, expected: int | None, got: int) -> BadData:
    return BadData(
        f"{str(path)!r}: expected vectors of {expected} numbers each as the first one has, got {got} in row {row}"
    )


def _choose(
    path: Path,
    names: list[str],
    lists: list[str],
    numbers: list[str],
    others: list[str],
    vector: str | None,
    id: str | None,
) -> Chosen:
    """Return which columns hold vectors, and which one their ids.

    Raises:
        HoldfastError: no such column, several of lists, or none of numbers.
    """
    # What is asked for by name must be there
    for asked in (vector, id):
        if asked is not None and asked not in names:
            raise unknown(f"column of {path.name}", asked, names)
    if id is None:
        # By its usual name, or because there is no other
        known = [name for name in USUAL if name in names]
        id = known[0] if known else others[0] if len(others) == 1 else None
    if vector is not None:
        return Chosen([vector], id)
    # Which of several vectors is meant, nobody can guess
    if len(lists) > 1:
        raise Ambiguous(
            f"{str(path)!r}: expected one column of vectors, got {', '.join(lists)}; choose with ?vector=NAME"
        )
    if not lists and not (numbers := [name for name in numbers if name != id]):
        raise BadData(
            f"{str(path)!r}: expected a column of lists of numbers, or columns of numbers, got "
            f"{', '.join(names) or 'none'}"
        )
    return Chosen(lists or numbers, id)


def _unreadable(path: Path, error: Exception) -> BadData:
    reason = os_reason(error) if isinstance(error, OSError) else first_line(error)
    return BadData(f"cannot read the vectors {str(path)!r} ({reason}); write the file again")
