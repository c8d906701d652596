"""scikit-learn's handwritten digits: 1,797 real 8x8 grey images that need no download."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import ImageSource
from holdfast.core.data_source import DataSource
from holdfast.core.source_spec import Options, finish, one_of, take
from holdfast.runtime.errors import BadValue
from holdfast.runtime.names import file

_TRAIN = 1197
_SPLIT_SEED = 1797
_FILE = file("sklearn.datasets").parent / "data" / "digits.csv.gz"


@dataclass(frozen=True)
class DigitsSource(DataSource):
    """One part of scikit-learn's handwritten digits, which need no download."""

    about = "scikit-learn's handwritten digits, the held-out 600; ?part=heldout|train|all"
    bare = True

    def open(self, name: str, options: Options) -> "Digits":
        """Open `digits?part=train`."""
        if name:
            raise BadValue(f"expected digits or digits?part=train, got digits:{name}")
        part = take(options, "part", one_of("heldout", "train", "all"), "heldout")
        finish(options)
        return Digits(part)


class Digits(ImageSource):
    """One part of scikit-learn's digits (UCI "Optical Recognition of Handwritten Digits" test set).

    The split is one fixed permutation: the first 1,197 images are "train", from which the shipped encoders
    learned, the other 600 are "heldout", on which an audit is honest. Ids are positions in scikit-learn's order.

    Args:
        part: "heldout" (600 images), "train" (1,197) or "all" (1,797).

    Raises:
        HoldfastError: another part.
    """

    concurrent = True

    def __init__(self, part: str = "heldout"):
        parts = {"heldout": slice(_TRAIN, None), "train": slice(0, _TRAIN), "all": slice(None)}
        if part not in parts:
            raise BadValue(f"digits: expected part=heldout, train or all, got {part!r}")
        self.part = part
        self._images, self._labels = _digits()
        self._rows = _order()[parts[part]]

    def __len__(self) -> int:
        return len(self._rows)

    def __str__(self) -> str:
        return f"scikit-learn's digits ({self.part}): {len(self)} images"

    def id(self, index: int) -> str:
        """Return for example "digit-0012", the thirteenth image in scikit-learn's order."""
        return f"digit-{self._rows[index]:04d}"

    def load(self, index: int) -> Float[Tensor, "1 8 8"]:
        """Return the pixels, scikit-learn's values / 16."""
        return self._images[self._rows[index]].clone()  # the rows are shared by all parts

    def files(self, indices: Sequence[int]) -> tuple[Path, ...]:
        """Return scikit-learn's file."""
        return (_FILE,) if _FILE.is_file() else ()

    def label(self, index: int) -> int:
        """Return the digit, 0 to 9."""
        return int(self._labels[self._rows[index]])


def train_images() -> tuple[Float[Tensor, "n 1 8 8"], Int[Tensor, "n"]]:
    """Return the 1,197 training images in [0, 1] and their digits, in the order of the split."""
    images, labels = _digits()
    # Positions in scikit-learn's order
    rows = torch.tensor(_order()[:_TRAIN])
    return images[rows], labels[rows]


@cache
def _digits() -> tuple[Float[Tensor, "1797 1 8 8"], Int[Tensor, "1797"]]:
    pixels, labels = _read()
    # 17 levels, from 0 to 16
    return torch.tensor(pixels / 16, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(labels, dtype=torch.int64)


def _read() -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels [1797, 64], 0 to 16, and the digits: from scikit-learn's file, as its import takes a second."""
    if _FILE.is_file():
        table = np.loadtxt(_FILE, delimiter=",")
        return table[:, :-1], table[:, -1]
    from sklearn.datasets import load_digits  # where it keeps the file elsewhere

    pixels, labels = load_digits(return_X_y=True)
    return np.asarray(pixels), np.asarray(labels)


@cache
def _order() -> list[int]:
    # RandomState's stream is frozen by NumPy's compatibility policy (NEP 19): the split never moves
    return np.random.RandomState(_SPLIT_SEED).permutation(1797).tolist()
