"""Sets of labels as people write them, and on which side of a pair of sets a label is."""

import re
from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from holdfast.core import Head, Reps
from holdfast.runtime.errors import BadValue, Mismatch

LabelSet = int | str
"""A label, or several: "281-293, 300" is 281 to 293 and 300."""


def labels_of(written: LabelSet) -> frozenset[int]:
    """Return the labels of a set.

    Raises:
        HoldfastError: a text that is none, or a range that falls.

    Example:
        >>> sorted(labels_of("3-5, 9"))
        [3, 4, 5, 9]
    """
    members: set[int] = set()
    for part in str(written).split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        # What is no number becomes a range that falls, and is refused with those
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise BadValue(f"labels: expected numbers and rising ranges such as '281-293, 300', got {written!r}")
        members.update(range(first, last + 1))
    return frozenset(members)


def apart(sets: Sequence[LabelSet]) -> bool:
    """Whether there are two sets, without a common label."""
    return len(sets) == 2 and not labels_of(sets[0]) & labels_of(sets[1])


def member(labels: Int[Tensor, "*shape"], names: Iterable[int]) -> Bool[Tensor, "*shape"]:
    """Return which labels are of a set."""
    return torch.isin(labels, torch.tensor(sorted(names), device=labels.device))


def sides(labels: Int[Tensor, "*shape"], sets: Sequence[LabelSet]) -> Int[Tensor, "*shape"]:
    """Return 0 for labels of the first set, 1 for those of the second, -1 for others."""
    first, second = (member(labels, labels_of(names)) for names in sets)
    return torch.where(first, 0, torch.where(second, 1, -1))


def predict_membership(head: Head, reps: Reps, names: LabelSet) -> Bool[Tensor, "batch"]:
    """Return where a head's best class is of a set; a tie with one that is not does not count.

    Raises:
        HoldfastError: a head that knows no class of the set, or no other.
    """
    inside = member(head.classes, labels_of(names))
    if not inside.any() or inside.all():
        raise Mismatch(
            f"labels {names}: expected some that the head knows, and others, of its {len(head.classes)} classes "
            f"{head.classes.tolist()[:10]}; say in known_as what the training images call them"
        )
    scores = head.scores(reps)
    # Strictly, since a tie is decided by the order of classes alone
    return scores[:, inside].amax(1) > scores[:, ~inside].amax(1)
