"""Columns of Parquet files, made of their bytes: pyarrow's own converters import pandas, for a fifth of a second."""

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from holdfast.core.ids import Ids


def numbers(values: np.ndarray) -> pa.Array:
    """Return a column of one number, or truth value, for each row.

    Example:
        >>> numbers(np.array([True, False, True])).to_pylist()
        [True, False, True]
    """
    array = np.ascontiguousarray(values)
    packed = np.packbits(array, bitorder="little") if array.dtype == bool else array
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, pa.py_buffer(packed)])


def values(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column that `numbers` made, of its own type.

    Example:
        >>> values(pa.chunked_array([numbers(np.array([True, False])), numbers(np.array([True]))])).tolist()
        [True, False, True]
    """
    kind, parts = np.dtype(column.type.to_pandas_dtype()), []
    for chunk in column.chunks:
        end, buffer = chunk.offset + len(chunk), chunk.buffers()[1]
        if pa.types.is_boolean(column.type):
            whole = np.unpackbits(np.frombuffer(buffer, np.uint8), count=end, bitorder="little").view(bool)
        else:
            whole = np.frombuffer(buffer, kind, end)
        parts.append(whole[chunk.offset :])
    return np.concatenate([np.empty(0, kind), *parts])


def floats(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column of numbers, or of truth values, as floats [rows]; missing values become NaN.

    Example:
        >>> floats(pa.chunked_array([numbers(np.array([True, False]))])).tolist()
        [1.0, 0.0]
    """
    whole = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
    whole = whole.cast(pa.float64())
    if whole.null_count:  # of other people's tables
        whole = whole.fill_null(math.nan)
    return np.array(np.from_dlpack(whole.combine_chunks()))


def texts(values: Sequence[str]) -> pa.Array:
    """Return a column of texts.

    Example:
        >>> texts(["a", "", "ä"]).to_pylist()
        ['a', '', 'ä']
    """
    encoded, ends = (values if isinstance(values, Ids) else Ids(values)).encode()
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(encoded))
