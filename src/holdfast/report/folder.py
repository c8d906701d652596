"""Reading a run folder: the columns of its tables, its pictures. Nothing outside the folder is read."""

import base64
import io
import math
from dataclasses import dataclass

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.runtime.doors import open_picture
from holdfast.runtime.errors import UnreadableRecord
from holdfast.storage.columns import floats
from holdfast.storage.record_file import RunFiles

_FARTHEST = 1e300
"""Numbers beyond are drawn there: their differences would be no numbers."""
_PNG = b"\x89PNG\r\n\x1a\n"
QUALITY = 60
"""Of WebP: of a photo a tenth of the bytes of a PNG; no compression spares much of noise."""


@dataclass(frozen=True)
class Picture:
    """A picture as a data URI with its size in pixels."""

    uri: str
    width: int
    height: int

    @property
    def small(self) -> bool:
        """Whether its pixels must stay visible when it is enlarged."""
        return max(self.width, self.height) <= 96


def read_column(folder: RunFiles, table: str, column: str) -> np.ndarray:
    """Return one column of a per-image table as floats [images]; missing values become NaN."""
    data = folder.read(table, "a Parquet table")
    try:
        with pq.ParquetFile(io.BytesIO(data)) as file:
            if column not in file.schema_arrow.names:
                raise UnreadableRecord(f"expected a column {column!r} in {table}, got {file.schema_arrow.names}")
            return floats(file.read(columns=[column])[column])
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UnreadableRecord(
            f"expected a Parquet table at {table}, it cannot be read; run the audit again"
        ) from error


def read_picture(folder: RunFiles, relative: str, most: int | None = None, *, sparse: bool = False) -> Picture:
    """Return a PNG of the run, ready for embedding.

    Args:
        folder: the run folder.
        relative: the name of the file.
        most: pixels that a side may have; a larger picture is made smaller, and loses what nobody sees. None: as it is.
        sparse: whether a smaller one keeps every second pixel, or third, as it is: means of noise are no noise.
    """
    data = folder.read(relative, "a PNG picture")
    if not data.startswith(_PNG) or len(data) < 24:
        raise UnreadableRecord(f"expected a PNG picture at {relative}, got something else; run the audit again")
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if most is None or max(width, height) <= most:
        return Picture("data:image/png;base64," + base64.b64encode(data).decode("ascii"), width, height)
    try:
        picture = _smaller(open_picture(io.BytesIO(data), ("Png",)).convert("RGB"), most, sparse)
        file = io.BytesIO()
        picture.save(file, "WEBP", quality=QUALITY)
    except (OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError) as error:
        raise UnreadableRecord(f"expected a PNG picture at {relative}, it is damaged; run the audit again") from error
    return Picture("data:image/webp;base64," + base64.b64encode(file.getvalue()).decode("ascii"), *picture.size)


def _smaller(picture: PIL.Image.Image, most: int, sparse: bool) -> PIL.Image.Image:
    """Return a picture whose sides have so many pixels at most."""
    if not sparse:
        picture.thumbnail((most, most), PIL.Image.Resampling.LANCZOS)
        return picture
    every = -(-max(picture.size) // most)
    return PIL.Image.fromarray(np.asarray(picture)[::every, ::every])


def nice_ticks(low: int | float, high: int | float, count: int = 4) -> list[int | float]:
    """Return round numbers whose ends enclose [low, high], about `count` of them, two at least.

    Ends that agree in nine digits are told apart by no axis: they are widened, and so are those in the wrong order.
    """
    low, high = (min(max(float(end), -_FARTHEST), _FARTHEST) for end in (low, high))
    if not high - low > max(1e-9 * max(abs(low), abs(high)), 1 / _FARTHEST):
        pad = max(abs(low), abs(high)) * 0.1 or 0.5
        low, high = min(low, high) - pad, max(low, high) + pad
    rough = (high - low) / max(1, count - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10, 20) if m * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]
