"""A part of a labelled source whose classes are imbalanced on purpose, and its twin of equal size that is balanced."""

import math
from collections.abc import Sequence

import PIL.Image
from torch import Tensor

from holdfast.core import ImageSource, Rng
from holdfast.runtime.errors import BadValue, Missing, NotEnough
from holdfast.sources.data.shared.reader import Reader


class LongTail(ImageSource):
    """Images of a source, few of some classes: n_max · ratio^(-r / (C-1)), rounded down, of the class of rank r.

    n_max is the largest number for which every class has enough images. Ranks of classes, and which images of a class
    are kept, depend on the seed, the classes' numbers and the ids alone; a smaller number of a class is the beginning
    of a larger one, so the twins have as many images in common as they can. Images keep their ids.

    Args:
        source: where the images come from; it must know all their classes.
        ratio: how many times as many images the most frequent class has as the rarest; >= 1.
        seed: which classes are frequent and which images are kept: part of what the data are, not the run's seed.
        uniform: keep as many images as the long tail, but as many of every class (or one more, of the frequent ones).
        counts: how many images of the class of each rank, the most frequent first, instead of those of `ratio`.

    Attributes:
        counts: how many images of each class are kept, by its number.

    Raises:
        HoldfastError: images without labels, one class only, a ratio below 1, or classes with too few images.
    """

    def __init__(
        self,
        source: ImageSource,
        ratio: float = 100.0,
        seed: int = 0,
        uniform: bool = False,
        counts: Sequence[int] | None = None,
    ):
        self.source, self.uniform, self.classes, self.notes = source, uniform, source.classes, source.notes
        self.concurrent = source.concurrent
        rng = Rng(seed).child("balance")
        members = _members(Reader(source))
        # the first word of each stream is a number that depends on (seed, name) alone
        ranked = sorted(members, key=lambda label: rng.child("class").generator(str(label)).initial_seed())
        # Sizes by rank, since a rare class may be the one that limits the most frequent
        wanted = _profile([len(members[label]) for label in ranked], ratio, source) if counts is None else list(counts)
        if len(wanted) != len(ranked) or min(wanted) < 1:
            raise BadValue(
                f"long tail of {source}: expected a count of 1 or more for each of {len(ranked)} classes, "
                f"got {wanted[:10]}"
            )
        if uniform:
            # As many in all, evenly; the rest one each to the first ranks
            each, more = divmod(sum(wanted), len(ranked))
            wanted = [each + (rank < more) for rank in range(len(ranked))]
        self.counts = dict(zip(ranked, wanted, strict=True))
        self._rows: list[int] = []
        for label, count in self.counts.items():
            if len(members[label]) < count:
                raise NotEnough(
                    f"long tail of {source}: expected at least {count} images of class {label}, got "
                    f"{len(members[label])}; give a larger ratio, smaller counts or more images"
                )
            # By number, then id: a shorter choice is the beginning of a longer one
            keys = sorted((rng.generator(source.id(row)).initial_seed(), source.id(row), row) for row in members[label])
            self._rows += [row for _, _, row in keys[:count]]
        self._rows.sort()  # as they stand in the source, for reading on

    def __len__(self) -> int:
        return len(self._rows)

    def __str__(self) -> str:
        kind = "balanced" if self.uniform else "long tail"
        fewest, most = min(self.counts.values()), max(self.counts.values())
        return f"{self.source}, {kind}: {len(self)} images, {fewest} to {most} a class"

    def id(self, index: int) -> str:
        """Return the id that the source gives the image."""
        return self.source.id(self._rows[index])

    def load(self, index: int) -> PIL.Image.Image | Tensor:
        """Return the image as the source does."""
        return self.source.load(self._rows[index])

    def shape(self, index: int) -> tuple[int, int, int] | None:
        """Return the shape that the source gives the image."""
        return self.source.shape(self._rows[index])

    def label(self, index: int) -> int | None:
        """Return the class that the source knows."""
        return self.source.label(self._rows[index])


def _members(source: Reader) -> dict[int, list[int]]:
    """Return the rows of each class in the source."""
    members: dict[int, list[int]] = {}
    for row in range(source.count):
        label = source.label(row)
        if label is None:
            raise Missing(
                f"long tail of {source}: expected images with labels, got none for {source.id(row)!r}; use one folder "
                "per class, an .npz with 'labels' or a labelled dataset, or leave balance= out"
            )
        members.setdefault(label, []).append(row)
    if len(members) < 2:
        raise NotEnough(f"long tail of {source}: expected two classes or more, got {len(members)}; leave balance= out")
    return members


def _profile(sizes: Sequence[int], ratio: float, source: ImageSource) -> list[int]:
    """Return the number of images to keep of the class of each rank, from those that there are."""
    if not 1 <= ratio < math.inf:
        raise BadValue(f"long tail of {source}: expected ratio >= 1, got {ratio:g}; 100 is usual")
    # ratio^(-r / (C-1)), from 1 to 1 / ratio
    shares = [ratio ** (-rank / (len(sizes) - 1)) for rank in range(len(sizes))]
    slack = 1e-9  # 500 · 100^-1 is 5, whatever the rounding
    # The largest n_max for which n_max · share fits into every class
    most = math.floor(min(size / share for size, share in zip(sizes, shares, strict=True)) + slack)
    # The rarest class needs one
    if most * shares[-1] + slack < 1:
        raise NotEnough(
            f"long tail of {source}: expected {math.ceil(ratio)} images or more of the most frequent class, so that "
            f"one is left of the rarest, got {most}; give a smaller ratio or more images"
        )
    return [math.floor(most * share + slack) for share in shares]
