"""Reading a run folder: the record, the columns of its tables, its pictures. Nothing outside the folder is read."""

import base64
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import HoldfastError, UnreadableRecord

SCHEMA = 1
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Picture:
    """A PNG as a data URI with its size in pixels."""

    uri: str
    width: int
    height: int

    @property
    def small(self) -> bool:
        """Whether its pixels must stay visible when it is enlarged."""
        return max(self.width, self.height) <= 96


def read_record(folder: Path) -> dict[str, Any]:
    """Return the record of a run.

    Raises:
        HoldfastError: no record.json, one that is not JSON, or one of another schema.
    """
    path = folder / "record.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableRecord(
            f"expected a run folder with a readable record.json, got {str(folder)!r}; "
            "give the folder that `holdfast audit` wrote"
        ) from error
    except ValueError as error:
        raise UnreadableRecord(
            f"expected JSON in {str(path)!r}, got something else ({error}); run the audit again"
        ) from error
    schema = record.get("schema") if isinstance(record, dict) else None
    if schema != SCHEMA:
        raise UnreadableRecord(
            f"expected a record of schema {SCHEMA} in {str(path)!r}, got {schema!r}; "
            "write the report with the version of holdfast that wrote the record"
        )
    return record


def _inside(folder: Path, relative: str) -> Path:
    path = (folder / relative).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise HoldfastError(f"expected a path inside the run folder, got {relative!r}; the record was changed by hand")
    return path


def read_column(folder: Path, table: str, column: str) -> np.ndarray:
    """Return one column of a per-image table as floats [images]; missing values become NaN.

    Raises:
        HoldfastError: a table that cannot be read or that has no such column.
    """
    path = _inside(folder, table)
    try:
        with pq.ParquetFile(path) as file:
            if column not in file.schema_arrow.names:
                raise HoldfastError(f"expected a column {column!r} in {table}, got {file.schema_arrow.names}")
            values = file.read(columns=[column])[column]
    except (OSError, pa.ArrowException) as error:
        raise HoldfastError(f"expected a Parquet table at {table}, it cannot be read; run the audit again") from error
    return values.cast(pa.float64() if not pa.types.is_boolean(values.type) else pa.int8()).to_numpy().astype(float)


def read_picture(folder: Path, relative: str) -> Picture:
    """Return a PNG of the run, ready for embedding.

    Raises:
        HoldfastError: a file that is absent or not a PNG.
    """
    path = _inside(folder, relative)
    data = path.read_bytes() if path.is_file() else b""
    if not data.startswith(_PNG) or len(data) < 24:
        raise HoldfastError(f"expected a PNG picture at {relative}, there is none; run the audit again")
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    return Picture("data:image/png;base64," + base64.b64encode(data).decode("ascii"), width, height)


def finite_part(values: np.ndarray) -> np.ndarray:
    """Return the finite values of a column; NaN and infinities cannot be drawn."""
    return values[np.isfinite(values)]


def nice_ticks(low: int | float, high: int | float, wanted: int = 4) -> list[int | float]:
    """Return round numbers whose ends enclose [low, high], about `wanted` of them."""
    if not high > low:
        pad = abs(low) * 0.1 or 0.5
        low, high = low - pad, high + pad
    rough = (high - low) / max(1, wanted - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]
