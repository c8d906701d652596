"""Stored vectors as a side of a comparison: items by their ids, in one order, and which of very many are looked at."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.auditing.record import passes_entry
from holdfast.core import Passes
from holdfast.numerics.geometry.directions import unit
from holdfast.numerics.geometry.neighbour_lists import Lists, leave_out_own
from holdfast.numerics.rng import Rng
from holdfast.runtime.errors import Mismatch
from holdfast.runtime.privacy import public
from holdfast.sources.data.shared.in_words import plural
from holdfast.sources.vectors import Vectors
from holdfast.sources.vectors.vectors import PIECE, pour
from holdfast.storage.index_upgrade import IndexEncoder, IndexPasses
from holdfast.workflows.compare_index.encoders import Side
from holdfast.workflows.compare_index.measures import Finds
from holdfast.workflows.compare_index.upgrade import PAIRED, Drawn, Represented

ALL = 2**36
"""Products of numbers that lists of all items may take."""

SOME = 2**37
"""Products that lists of some of them may take, about a minute on two cores for both sides."""

TRIED = 256
"""Items by which it is seen whether two sides are of one space."""


@dataclass(frozen=True)
class Matched:
    """What two sides of stored vectors have in common, item by item.

    Attributes:
        ids: of the items.
        old: what the old side makes of them.
        new: the new one.
        notes: what should be known.
    """

    ids: Sequence[str]
    old: Represented
    new: Represented
    notes: list[str]


def match(old: Vectors, new: Vectors) -> Matched:
    """Return the items that both sides have, in the order of the old one.

    Raises:
        HoldfastError: no item in common, files without ids of two lengths, or numbers that are not finite.
    """
    for side in (old, new):
        side.refuse_unfinished()
    # What each side says of itself, then what is missing or zero
    notes = [f"{side.name}: {note}" for side in (old, new) for note in side.notes]
    for side in (old, new):
        if len(zero := side.survey.zero):
            notes.append(
                f"{side.name}: {len(zero):,} of {plural(len(side), 'vector')} are zero ({side.name_rows(zero)})"
            )
    rows = _common_rows(old, new)
    for side, found in zip((old, new), rows, strict=True):
        if alone := len(side) - len(found):
            # Rows that nobody asked for
            known = torch.ones(len(side), dtype=torch.bool)
            known[found] = False
            named = side.name_rows(known.nonzero().squeeze(1))
            notes.append(f"{side.name}: {alone:,} of {plural(len(side), 'id')} are on this side only ({named})")
    ids = old.ids if _is_whole(rows[0], old) else [str(old.ids[row]) for row in rows[0].tolist()]
    values = _select(old, rows[0]), _select(new, rows[1])
    sides = [
        Represented(own, finds=_finder(side, row, own, other, notes))
        for side, row, own, other in ((old, rows[0], *values), (new, rows[1], *values[::-1]))
    ]
    return Matched(ids, sides[0], sides[1], notes)


def _common_rows(old: Vectors, new: Vectors) -> tuple[Int[Tensor, "items"], Int[Tensor, "items"]]:
    """Return where the items that both have stand on each side."""
    # Without ids row is matched with row, which needs as many
    if old.numbered and new.numbered and len(old) != len(new):
        raise Mismatch(
            f"expected as many vectors on both sides, which have no ids, got {len(old):,} and {len(new):,}; say which "
            "row is which with ?ids=FILE"
        )
    if len(old) == len(new) and all(a == b for a, b in zip(old.ids, new.ids, strict=True)):
        both = torch.arange(len(old))
        return both, both
    # By a table of the new ids: orders may differ
    places = {name: row for row, name in enumerate(new.ids)}
    pairs = [(row, place) for row, name in enumerate(old.ids) if (place := places.get(name)) is not None]
    if not pairs:
        raise Mismatch(
            f"expected vectors of the same items on both sides, got no id in common: {old.ids[0]!r}, … in {old.name}, "
            f"{new.ids[0]!r}, … in {new.name}; say which row is which with ?ids=FILE"
        )
    first, second = torch.tensor(pairs).unbind(1)
    return first, second


def side_of(vectors: Vectors, other: Side, notes: list[str]) -> Side:
    """Return stored vectors as a side beside an encoder's, whose images they are of, by ids.

    Raises:
        HoldfastError: an image without a vector, or numbers that are not finite.
    """
    vectors.refuse_unfinished()
    ids = other.images.ids
    places = {name: row for row, name in enumerate(vectors.ids)}
    absent = [name for name in ids if name not in places]
    if absent:
        raise Mismatch(
            f"{vectors.name}: expected a vector for each image, by its id, got none for {len(absent):,} of "
            f"{len(ids):,}, first {absent[0]!r}; the first id of the vectors is {vectors.ids[0]!r}, and "
            "?ids=FILE says others"
        )
    if alone := len(vectors) - len(ids):
        notes.append(f"{vectors.name}: {plural(alone, 'vector')} of no image that is compared")
    rows = torch.tensor([places[name] for name in ids])
    reps = vectors.values[rows].double()
    finds = _finder(vectors, rows, reps, other.represented.reps, notes)
    represented = Represented(reps, labels=other.represented.labels, finds=finds)
    return Side(entry_of(vectors), other.images, other.thumbnails, represented)


def _is_whole(rows: Int[Tensor, "items"], side: Vectors) -> bool:
    return len(rows) == len(side) and bool((rows == torch.arange(len(rows))).all())


def _select(side: Vectors, rows: Int[Tensor, "items"]) -> Float[Tensor, "items dim"]:
    """Return the vectors of some rows: themselves where these are all, else copied to a temporary file."""
    if _is_whole(rows, side):
        return side.values
    # what pages are read is read once where rows are in order
    return pour((side.values[some].numpy() for some in rows.split(max(1, PIECE // side.dim))), side.name)


def _finder(side: Vectors, rows: Int[Tensor, "items"], own: Tensor, other: Tensor, notes: list[str]) -> Finds | None:
    """Return what asks an index for the lists of items; None for vectors, whose lists are exact."""
    if (search := side.search) is None:
        return None
    # codes are not what an index is asked with: originals are, and the other side has them where it is of one space
    asked = other if _is_one_space(own, other) else own
    if asked is other:
        notes.append(f"{side.name}: is asked with the vectors of the other side, whose lists are held against it")
    item = torch.full((len(side) + 1,), -1)
    item[rows] = torch.arange(len(rows))

    def find(queries: Int[Tensor, "queries"], k: int) -> Lists:
        # the row -1, of nothing found, is the last one here
        return leave_out_own(item[search(asked[queries], k + 1)], queries)

    return find


def _is_one_space(own: Tensor, other: Tensor) -> bool:
    """Return whether most items are nearest to themselves on the other side, as codes are to what they stand for."""
    if own.shape != other.shape:
        return False
    # some of very many, evenly
    some = torch.linspace(0, len(own) - 1, min(TRIED, len(own))).long()
    near = unit(own[some].double()) @ unit(other[some].double()).T
    return bool((near.argmax(1) == torch.arange(len(some))).double().mean() > 0.5)


def draw(matched: Matched, queries: int | None, seed: int) -> Drawn:
    """Return the items whose lists and pairs are compared; all lists where that is soon done and nobody says how many.

    An index that searches by itself is asked for lists of items of its own, so the interval is about these.
    """
    items = len(matched.ids)
    dim = max(matched.old.reps.shape[1], matched.new.reps.shape[1])
    # All lists where they take seconds, else as many as a minute holds
    few = items * items * dim <= ALL if queries is None else queries >= items
    approximate = matched.old.finds is not None or matched.new.finds is not None
    count = queries or (items if few else min(items, max(PAIRED // 10, SOME // (items * dim))))
    order = torch.randperm(items, generator=Rng(seed).child("queries").generator())
    chosen = None if few and not approximate else order[:count].sort().values
    return Drawn(chosen, order[:PAIRED].sort().values)


def find_copies(matched: Matched, drawn: Drawn) -> Int[Tensor, "pairs 2"]:
    """Return the pairs of items whose vectors are equal on both sides: they are of one thing."""
    # Equal on one side alone may be a fault of that encoder
    both = np.concatenate([side.reps[drawn.paired].double().numpy() for side in (matched.old, matched.new)], 1)
    _, group, sizes = np.unique(both, axis=0, return_inverse=True, return_counts=True)
    pairs = [
        torch.combinations(drawn.paired[torch.from_numpy(np.flatnonzero(group.reshape(-1) == number))])
        for number in np.flatnonzero(sizes > 1)
    ]
    return torch.cat([torch.empty(0, 2, dtype=torch.long), *pairs])


def entry_of(vectors: Vectors) -> IndexEncoder:
    """Return stored vectors as records have an encoder: nothing is known of it but what it made."""
    # Stored: nobody makes a pass
    none = passes_entry(Passes())
    return IndexEncoder(
        name=public(vectors.name),
        fingerprint=vectors.survey.fingerprint[:16],
        parameters=None,
        mean=[],
        std=[],
        origin={"source": "stored vectors"},
        geometry=None,
        input=[],
        dim=vectors.dim,
        identity=vectors.survey.fingerprint,
        passes=IndexPasses(predicted=none, made=none),
    )
