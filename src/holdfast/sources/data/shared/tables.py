"""Tables on disk, as data sets keep them: Parquet, the Arrow files of `save_to_disk`, JSON lines and TSV."""

import bisect
import json
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from holdfast.runtime.doors import read_text, regular
from holdfast.runtime.errors import BadData, first_line

SUFFIXES = (".parquet", ".arrow", ".jsonl", ".tsv")

HELD = 256 * 2**20
"""Bytes of a column that are held in memory, for pictures are read in any order and Parquet only by row groups."""

RATIO = 100
"""How many times smaller in the file a column of more than `HELD` bytes may be."""

Read = tuple[list[str], list[dict[str, Any]]]
"""The columns of a text file, and its rows."""


class Table(ABC):
    """Rows of named columns.

    Attributes:
        files: where they are.
        columns: what they are called.
    """

    files: Sequence[Path]
    columns: Sequence[str]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def column(self, name: str) -> list[Any]:
        """Return all values of a column."""

    @abstractmethod
    def cell(self, name: str, row: int) -> Any:
        """Return one value."""


class Lines(Table):
    """JSON lines, or tab-separated values under a header; all in memory."""

    def __init__(self, files: Sequence[Path]):
        self.files = files
        read = [_read_tsv(file) if file.suffix == ".tsv" else _json(file) for file in files]
        # In the order in which lines first have them
        self.columns = tuple(dict.fromkeys(name for names, _ in read for name in names))
        self._rows = [row for _, rows in read for row in rows]

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, name: str) -> list[Any]:
        """Return all values of a column; None where a line has none."""
        return [row.get(name) for row in self._rows]

    @override
    def cell(self, name: str, row: int) -> Any:
        return self._rows[row].get(name)


class Columns(Table):
    """Parquet or Arrow files of one schema, read piece by piece: row groups, or whole files that are mapped."""

    def __init__(self, files: Sequence[Path]):
        self.files = files
        self._loads: list[Callable[[str], pa.ChunkedArray]] = []
        self._ends: list[int] = []
        self._file_of: list[Path] = []  # of each piece
        self._held: OrderedDict[tuple[int, str], pa.ChunkedArray] = OrderedDict()
        self._bytes = 0
        self._turn = threading.Lock()
        schemas = [self._map_arrow(file) if file.suffix == ".arrow" else self._open_parquet(file) for file in files]
        self.columns = schemas[0]
        # Any order of columns will do
        for file, schema in zip(files, schemas, strict=True):
            if set(schema) != set(self.columns):
                raise BadData(
                    f"{str(file)!r}: expected the columns of {files[0].name}, {', '.join(self.columns)}, got "
                    f"{', '.join(schema)}; keep files of another table elsewhere"
                )

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @override
    def column(self, name: str) -> list[Any]:
        return [value for piece in range(len(self._loads)) for value in self._values(piece, self._load(piece, name))]

    def cell(self, name: str, row: int) -> Any:
        """Return one value; its piece is held for the next ones."""
        # The first piece that ends behind the row
        piece = bisect.bisect_right(self._ends, row)
        start = self._ends[piece - 1] if piece else 0
        return self._values(piece, self._piece(piece, name)[row - start : row - start + 1])[0]

    def __reduce__(self) -> tuple[type["Columns"], tuple[Sequence[Path]]]:
        """Send which files; they are opened again."""
        return Columns, (self.files,)

    def _piece(self, piece: int, name: str) -> pa.ChunkedArray:
        with self._turn:  # of threads that ask for one piece, one reads it
            if (piece, name) in self._held:
                self._held.move_to_end((piece, name))
                return self._held[piece, name]
            values = self._held[piece, name] = self._load(piece, name)
            self._bytes += values.nbytes
            # The longest unused go, but never the one at hand, however large
            while self._bytes > HELD and len(self._held) > 1:
                self._bytes -= self._held.popitem(last=False)[1].nbytes
            return values

    def _load(self, piece: int, name: str) -> pa.ChunkedArray:
        """Return a column of a piece, which has as many rows as its file says."""
        values, rows = self._loads[piece](name), self._ends[piece] - (self._ends[piece - 1] if piece else 0)
        if len(values) != rows:
            raise _unreadable(self._file_of[piece], ValueError(f"{len(values)} of {rows} rows are in column {name!r}"))
        return values

    def _values(self, piece: int, values: pa.ChunkedArray) -> list[Any]:
        """Return values of a piece as those of Python."""
        try:
            return values.to_pylist()
        except (pa.ArrowException, ValueError) as error:  # such as text that is none in UTF-8
            raise _unreadable(self._file_of[piece], error) from error

    def _open_parquet(self, file: Path) -> Sequence[str]:
        try:
            metadata = pq.read_metadata(regular(file))
            names = metadata.schema.to_arrow_schema().names
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(file, error) from error

        # Sizes are in the footer, so that nothing is unpacked to know them
        for group in range(metadata.num_row_groups):
            for place in range(metadata.num_columns):
                part = metadata.row_group(group).column(place)
                if part.total_uncompressed_size > max(HELD, RATIO * part.total_compressed_size):
                    raise _unreadable(
                        file,
                        ValueError(
                            f"{part.total_compressed_size:,} bytes of column {part.path_in_schema!r} "
                            f"would unpack to {part.total_uncompressed_size:,}"
                        ),
                    )

        def load(group: int, name: str) -> pa.ChunkedArray:
            try:
                # Opened anew each time: a handle would not go to another process, and threads would share it
                return (
                    pq.ParquetFile(regular(file), metadata=metadata).read_row_group(group, columns=[name]).column(name)
                )
            except (pa.ArrowException, OSError) as error:
                raise _unreadable(file, error) from error

        for group in range(metadata.num_row_groups):
            # `group=group` takes the number of now, and not of the end of the loop
            self._add(file, metadata.row_group(group).num_rows, lambda name, group=group: load(group, name))
        return names

    def _map_arrow(self, file: Path) -> Sequence[str]:
        try:
            table = pa.ipc.open_stream(pa.memory_map(str(regular(file)))).read_all()
            table.validate(full=True)  # else Arrow follows offsets out of the file, and the process ends
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(file, error) from error
        self._add(file, len(table), table.column)
        return table.column_names

    def _add(self, file: Path, rows: int, load: Callable[[str], pa.ChunkedArray]) -> None:
        self._loads.append(load)
        self._file_of.append(file)
        self._ends.append(len(self) + rows)


def open_table(files: Sequence[Path]) -> Table:
    """Return the table of some files of one format, in their order.

    Raises:
        HoldfastError: a file that cannot be read, or one of another table.
    """
    return (Lines if files[0].suffix in (".jsonl", ".tsv") else Columns)(files)


def _json(file: Path) -> Read:
    rows = []
    for number, line in _lines(file):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise BadData(f"{str(file)!r}, line {number}: expected a JSON object, got {line[:80]!r}; repair it")
        rows.append(row)
    return [name for row in rows for name in row], rows


def _read_tsv(file: Path) -> Read:
    # The first line that is not empty is the header
    (_, header), *rows = [(number, line.split("\t")) for number, line in _lines(file)] or [(1, [])]
    for number, row in rows:
        if len(row) != len(header):
            raise BadData(
                f"{str(file)!r}, line {number}: expected {len(header)} values, {', '.join(header)}, separated by tabs, "
                f"got {len(row)}; repair it"
            )
    return header, [dict(zip(header, row, strict=True)) for _, row in rows]


def _lines(file: Path) -> list[tuple[int, str]]:
    """Return the lines of a text that are not empty, and their numbers."""
    try:
        text = read_text(file)
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(file, error) from error
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _unreadable(file: Path, error: Exception) -> BadData:
    return BadData(f"cannot read the table {str(file)!r} ({first_line(error)}); repair it, or download it again")
