"""Shards: which images one covers, the file that holds what was seen of them, what it cost, and whether it fits."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.core import Failure, HoldfastError, Observation, Passes, Scope, registry

TOGETHER = 64
"""Batches of training images in one file: there may be a million of them."""


AGAINST_ALL = 2**23
"""Comparisons with the population in one shard of a search: a step holds about twenty numbers for each."""

PROVED = 2**15
"""Values of images in one shard of proofs: an interrupt loses what was done of one, which may be minutes an image."""


class ShardFile(NamedTuple):
    """One shard of an observation: its first image and its last (exclusive), and the file that holds what was seen."""

    start: int
    stop: int
    file: str


@dataclass(frozen=True)
class Cost:
    """What one observation cost.

    Attributes:
        passes: encoder passes that were made, whether now or in an earlier run.
        predicted: what the plan had predicted.
        seconds: time they took.
    """

    passes: Passes
    predicted: Passes
    seconds: float


class ShardResults(NamedTuple):
    """What a shard holds: named tensors, the encoder passes that made them, and the seconds that these took."""

    tensors: dict[str, Tensor]
    passes: Passes
    seconds: float


Columns = dict[str, tuple[torch.dtype, torch.Size]]
"""What must be the same in all shards of an observation: the names of its tensors, their types, the shape of a row."""


class Written(NamedTuple):
    """What is to be known of a shard that was taken up: its columns, and what it cost."""

    columns: Columns
    passes: Passes
    seconds: float


def columns_of(tensors: Mapping[str, Tensor]) -> Columns:
    """Return the columns of a shard."""
    return {key: (value.dtype, value.shape[1:]) for key, value in tensors.items()}


def join_rows(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the rows of some parts as one; a single part as it is."""
    return parts[0] if len(parts) == 1 else {key: torch.cat([part[key] for part in parts]) for key in parts[0]}


class Rows:
    """The rows of all shards, each copied into its place when it comes, so that none is held twice for long.

    Args:
        images: how many there are; a shard of all of them is taken as it is.
        kept: whether they are kept at all; else they stay in files.
    """

    def __init__(self, images: int, kept: bool = True):
        self._images, self._kept, self._whole = images, kept, dict[str, Tensor]()
        self._columns: Columns | None = None
        self._galleries: dict[str, dict[int, Tensor]] = {}  # rows of some images only, few; by the first of a shard

    def take(self, shard: ShardFile, results: ShardResults) -> Written:
        """Take up a shard; return what else is to be known of it."""
        if self._kept:
            self.put(shard, results.tensors)
        return Written(columns_of(results.tensors), results.passes, results.seconds)

    def put(self, shard: ShardFile, tensors: dict[str, Tensor]) -> None:
        """Copy the rows of a shard into their place, unless it is of other columns than the first one."""
        self._columns = self._columns or columns_of(tensors)
        if self._columns != columns_of(tensors):
            return
        if shard.stop - shard.start == self._images:
            self._whole = tensors
            return
        for key, value in tensors.items():
            if key.startswith("gallery."):
                self._galleries.setdefault(key, {})[shard.start] = value
                continue
            if key not in self._whole:
                self._whole[key] = value.new_empty((self._images, *value.shape[1:]))
            self._whole[key][shard.start : shard.stop] = value

    def tensors(self) -> dict[str, Tensor]:
        """Return all rows, by name."""
        return self._whole | {
            key: torch.cat([parts[start] for start in sorted(parts)]) for key, parts in self._galleries.items()
        }


def fits(tensors: Mapping[str, Tensor], observation: Observation, shard: ShardFile, columns: Columns | None) -> bool:
    """Whether a shard holds a row for each of its images, and what the shards before it hold."""
    rows = [len(value) for key, value in tensors.items() if value.ndim and not key.startswith("gallery.")]
    complete = observation.scope.at_once or all(count == shard.stop - shard.start for count in rows)
    return complete and (columns is None or columns == columns_of(tensors))


def images_in(observation: Observation, batch_size: int, shape: tuple[int, ...], population: int = 0) -> int:
    """Return how many images a shard of an observation has: those of a pass.

    Fewer where they are proved, and where each is compared with a large population at every step.

    Example:
        >>> from holdfast.parts.observations.certified import Certified
        >>> from holdfast.parts.observations.clean import Clean
        >>> [images_in(Certified(), 64, shape) for shape in ((1, 28, 28), (3, 32, 32), (3, 224, 224))]
        [41, 10, 1]
        >>> images_in(Clean(), 64, (3, 32, 32))
        64
        >>> from holdfast.parts.observations.breaking_radii import BreakingRadii
        >>> [images_in(BreakingRadii(), 512, (3, 32, 32), population) for population in (10_000, 1_000_000)]
        [512, 8]
    """
    of_proofs = PROVED // prod(shape) if observation.passes.bounds else batch_size
    judged = (part for part in vars(observation).values() if isinstance(part, Failure))
    against_all = AGAINST_ALL // max(population, 1) if any(part.against_all for part in judged) else batch_size
    return max(1, min(batch_size, of_proofs, against_all))


def spans(
    observation: Observation,
    images: int,
    population: int,
    batch_size: int,
    shape: tuple[int, ...],
    cuts: Sequence[int] = (),
) -> list[tuple[int, int]]:
    """Return the first and the last (exclusive) image of every shard of an observation."""
    match observation.scope:
        case Scope.LAST:
            return [(population - images, population)]
        case Scope.ALL_TRAINING:
            return [(0, images)]
        case Scope.FIRST:
            size = images_in(observation, batch_size, shape, population)
            ends = sorted({*range(size, images, size), *(cut for cut in cuts if cut < images), images})
            return [(start, stop) for start, stop in itertools.pairwise([0, *ends]) if start < stop]
        case Scope.TRAINING:
            size = batch_size * TOGETHER
        case Scope.SYNTHETIC:
            size = 1
    return [(start, min(start + size, images)) for start in range(0, images, size)]


def unlike(observation: Observation, shard: ShardFile) -> HoldfastError:
    """Return the error for a shard that does not fit even when it was just made."""
    return HoldfastError(
        f"{registry.part_name(observation)}: expected a row for each of {shard.stop - shard.start} images in "
        f"{shard.file!r}, with the same tensors as in its other shards, got others; if its code has changed, delete "
        f"the folder {shard.file.rpartition('/')[0]!r} of the run"
    )
