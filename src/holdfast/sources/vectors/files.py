"""Files of vectors alone: NumPy's, and the .fvecs and .bvecs of benchmarks of approximate search."""

from pathlib import Path

import numpy as np
from torch import Tensor

from holdfast.runtime.doors import open_regular, read_text, regular
from holdfast.runtime.errors import BadData, os_reason
from holdfast.sources.data.shared.array_file import map_array
from holdfast.sources.vectors.vectors import PIECE, as_tensor, pour

KINDS = ("float16", "float32", "float64", "int8", "uint8")
"""Types of numbers that vectors are stored in."""

VECS = {".fvecs": np.dtype("<f4"), ".bvecs": np.dtype(np.uint8)}
"""What the rows of such files are made of, each behind its length, a whole number of four bytes."""


def read_npy(path: Path) -> Tensor:
    """Return the vectors of a .npy file, which stays on disk."""
    return of_array(map_array(path), str(path))


def of_array(values: np.ndarray, name: str) -> Tensor:
    """Return an array of vectors as a tensor that shares its numbers, where torch has their type.

    Raises:
        HoldfastError: another shape than [N, D], or another type of numbers.
    """
    if values.dtype.newbyteorder("=").name not in KINDS:
        raise BadData(
            f"{name}: expected vectors of {', '.join(KINDS)}, got {values.dtype.name}; save them with "
            ".astype('float32')"
        )
    # One axis is a vector, three are patches
    if values.ndim != 2:
        raise BadData(f"{name}: expected vectors [N, D], a row each, got the shape {list(values.shape)}")
    # numbers of another machine's order of bytes are copied, some at a time
    if not values.dtype.isnative:
        rows = max(1, PIECE // max(1, values.shape[1]))
        return pour((values[at : at + rows].astype(np.float32) for at in range(0, len(values), rows)), name)
    return as_tensor(values)


def read_vecs(path: Path) -> Tensor:
    """Return the vectors of a .fvecs or .bvecs file, which stays on disk.

    Raises:
        HoldfastError: a file that is no such one, or that ends inside a vector.
    """
    kind = VECS[path.suffix]
    try:
        # The length of the first vector is that of all
        with open_regular(path) as file:
            head = file.read(4)
        size = path.stat().st_size
        dim = int.from_bytes(head, "little", signed=True) if len(head) == 4 else 0
        if not size:
            raise BadData(f"{str(path)!r}: expected vectors, got an empty file")
        width = 4 + dim * kind.itemsize
        # Text, and files of other kinds, begin with numbers that are no length
        if not 0 < dim < 2**20:
            raise BadData(f"{str(path)!r}: expected the length of the first vector, got {dim}; is it {path.suffix}?")
        held = np.memmap(regular(path), np.uint8, "r", shape=(size // width, width))
    except OSError as error:
        raise BadData(f"cannot read the vectors {str(path)!r}: {os_reason(error)}") from error
    # Each row says its own length
    lengths = held[:, :4].copy().view("<i4")[:, 0] if len(held) else np.zeros(0)
    if (lengths != dim).any():
        row = int((lengths != dim).argmax())
        raise BadData(
            f"{str(path)!r}: expected vectors of {dim} numbers each as the first one has, got "
            f"{lengths[row]} in row {row}"
        )
    # A copy that was interrupted
    if size % width:
        raise BadData(
            f"{str(path)!r}: it ends inside row {size // width}, after {size % width} of {width} bytes; copy it again"
        )
    # Views of the file: the lengths are skipped, nothing is copied
    values = held[:, 4:] if kind.itemsize == 1 else held.view(kind)[:, 1:]
    return as_tensor(values)


def read_ids(path: Path) -> list[str]:
    """Return the ids of a file: a text, one in each line, or a .npy file of numbers or texts.

    Raises:
        HoldfastError: a file that cannot be read.
    """
    # Texts of NumPy have a type of their own
    if path.suffix == ".npy":
        values = map_array(path)
        if values.ndim != 1 or values.dtype.kind not in "iuUS":
            raise BadData(
                f"{str(path)!r}: expected one id for each vector, got {values.dtype} of the shape {list(values.shape)}"
            )
        return [text.decode() if isinstance(text, bytes) else str(text) for text in values.tolist()]
    try:
        return read_text(path).removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(f"cannot read the ids {str(path)!r}: {os_reason(error)}") from error
