"""Stored vectors: rows of numbers, each with an id, that stay on disk."""

import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core.ids import Ids
from holdfast.runtime.errors import BadData, Mismatch, NotFinite
from holdfast.sources.data.shared.rows_on_disk import RowsOnDisk

PIECE = 2**22
"""Numbers that are looked at together."""

SHOWN = 5
"""Ids that a sentence names."""

Search = Callable[[Float[Tensor, "queries dim"], int], Int[Tensor, "queries k"]]
"""The rows that an index finds for queries, nearest first; -1 where it finds fewer."""


@dataclass(frozen=True)
class Survey:
    """What a look at every number finds.

    Attributes:
        fingerprint: of all numbers and ids.
        zero: rows of zeros alone.
        not_finite: rows with NaN or infinite numbers.
    """

    fingerprint: str
    zero: Int[Tensor, "zero"]
    not_finite: Int[Tensor, "bad"]


@dataclass(frozen=True, eq=False)
class Vectors:
    """Rows of numbers, each with an id.

    Attributes:
        name: what they are called.
        values: [N, D], of any type of numbers; they may lie in a file that is mapped, so nothing is written to them.
        ids: a text for each row.
        numbered: whether ids are no more than the numbers of the rows.
        search: what an index finds by itself, where it is not exact; None: nothing else than its vectors say.
        notes: what should be said of them.
    """

    name: str
    values: Tensor
    ids: Sequence[str]
    numbered: bool = False
    search: Search | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or 0 in self.values.shape:
            raise BadData(f"{self.name}: expected vectors [N, D], a row each, got the shape {list(self.values.shape)}")
        # Ids of another file may be of another table
        if len(self.ids) != len(self.values):
            raise Mismatch(
                f"{self.name}: expected an id for each of {len(self.values):,} vectors, got {len(self.ids):,}"
            )
        # Looked for one by one only where a set is smaller
        if not self.numbered and len(set(self.ids)) < len(self.ids):
            first: dict[str, int] = {}
            for row, name in enumerate(self.ids):
                if (before := first.setdefault(name, row)) != row:
                    raise BadData(
                        f"{self.name}: expected each id once, got {name!r} in the rows {before} and {row}; "
                        "leave one out"
                    )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def dim(self) -> int:
        """D."""
        return self.values.shape[1]

    def blocks(self) -> Iterator[Tensor]:
        """Yield all rows in order, some at a time, as float32; those of float64 keep it."""
        # Each block is a view of the file until it is converted
        for rows in self.values.split(max(1, PIECE // self.dim)):
            yield rows if rows.dtype == torch.float64 else rows.float()

    @cached_property
    def survey(self) -> Survey:
        """What a look at every number finds."""
        # The shape too, for the same numbers may stand in other rows
        total, zero, bad = hashlib.sha256(repr(tuple(self.values.shape)).encode()), [], []
        for rows in self.blocks():
            total.update(np.ascontiguousarray(rows.numpy()).data)
            zero.append((rows == 0).all(1))
            bad.append(~rows.isfinite().all(1))
        # Other ids are another index
        for text in () if self.numbered else self.ids:
            total.update(f"{text}\n".encode())
        return Survey(
            total.hexdigest(),
            torch.cat(zero).nonzero().squeeze(1),
            torch.cat(bad).nonzero().squeeze(1),
        )

    def refuse_unfinished(self) -> None:
        """Refuse vectors with NaN or infinite numbers.

        Raises:
            HoldfastError: there are some; it names the first.
        """
        if len(bad := self.survey.not_finite):
            row = int(bad[0])
            raise NotFinite(
                f"{self.name}: expected finite numbers, got NaN or infinite ones in {len(bad):,} of {len(self):,} "
                f"vectors, first in row {row} (id {self.ids[row]!r}); leave them out, or mend what wrote them"
            )

    def name_rows(self, rows: Int[Tensor, "rows"]) -> str:
        """Return the ids of some rows, of many the first."""
        named = ", ".join(str(self.ids[row]) for row in rows[:SHOWN].tolist())
        return f"{named}, …" if len(rows) > SHOWN else named


def pour(blocks: Iterator[np.ndarray], name: str) -> Tensor:
    """Return rows of numbers, [n, D] each, as one tensor that lies in a temporary file.

    Raises:
        HoldfastError: rows of another length than the first, named by where they begin.
    """
    kept: RowsOnDisk | None = None
    kind, dim = np.dtype(np.float32), 0
    for block in blocks:
        # The first block says how long rows are, and of what numbers
        if kept is None:
            kind, dim = block.dtype, block.shape[1]
            kept = RowsOnDisk(kind.itemsize * dim)
        kept.add(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)
    if kept is None:
        raise BadData(f"{name}: expected vectors, got an empty file")
    return as_tensor(kept.read().reshape(-1).view(kind).reshape(-1, dim))


def as_tensor(values: np.ndarray) -> Tensor:
    """Return an array as a tensor of the same numbers; it may lie in a file that cannot be written to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it must not be written to
        return torch.from_numpy(values)


def number_rows(count: int) -> Ids:
    """Return the numbers of rows as ids."""
    return Ids(map(str, range(count)))
