"""Shards: which images one covers, the name of the file that holds what was seen, what it cost, whether it fits."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from holdfast.auditing.plan import Plan
from holdfast.auditing.surrogates import Surrogates
from holdfast.core import Encoder, Failure, Geometry, Observation, Passes, Scope, registry
from holdfast.runtime.errors import BadData
from holdfast.runtime.version import VERSION
from holdfast.sources.data import ImageSet
from holdfast.storage.run_folder import digest, files_read

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


def unlike(observation: Observation, shard: ShardFile) -> BadData:
    """Return the error for a shard that does not fit even when it was just made."""
    return BadData(
        f"{registry.part_name(observation)}: expected a row for each of {shard.stop - shard.start} images in "
        f"{shard.file!r}, with the same tensors as in its other shards, got others; if its code has changed, delete "
        f"the folder {shard.file.rpartition('/')[0]!r} of the run"
    )


FEWEST = 6
"""Images of the first round: the fewest whose median has a 95 % interval."""


def cuts_of(most: int, batch_size: int) -> tuple[int, ...]:
    """Return after how many images a round can end: 6, 12, 24, … within the first batch, then each whole batch.

    Shards end there too, so that no round has to make a shard of an earlier one again.

    Example:
        >>> cuts_of(40, 16), cuts_of(4, 16)
        ((6, 12, 16, 32, 40), (4,))
    """
    doubled = (FEWEST * 2**power for power in range(batch_size.bit_length()))
    ends = {*(end for end in doubled if end < batch_size), *range(batch_size, most, batch_size)}
    even = {end // 2 * 2 for end in ends}  # images are attacked in pairs
    return (*sorted(end for end in even if FEWEST <= end < most), most)


def ends_of_rounds(plan: Plan, population: int, shape: tuple[int, int, int]) -> tuple[int, ...]:
    """Return how many images of a shape can be attacked by the end of a round; the last one attacks all it needs."""
    # an audit that goes on until so many images needs no more of them
    most = plan.count_attacked(population)
    last = most if plan.until is None or plan.until.images is None else min(most, plan.until.images)
    return (*(end for end in cuts_of(most, plan.batch_size_of(shape)) if end < last), last)


LAYOUT = 6
"""Version of what shard files hold; part of their key."""


class ShardNames:
    """Names for what is observed of one encoder on the images of an audit.

    Args:
        encoder: the encoder under audit.
        surrogates: the encoders that observations run on instead.
        images: the population, rendered for the audited encoder.
        train: the images that probes learn from; None: those that are not attacked.
        settings: what else decides all that is stored: seed, batch size and the like.

    Attributes:
        identity: what the encoder is: the digest of its weights and of what else decides the representation.
        decisive: what decides all that is stored, beside the observation.
    """

    def __init__(
        self, encoder: Encoder, surrogates: Surrogates, images: ImageSet, train: ImageSet | None, settings: list[Any]
    ):
        self._surrogates, self._images, self._train = surrogates, images, train
        own, described = encoder.refresh_fingerprint(), _describe_encoder(encoder, images.geometry)
        self.identity = digest([own, described])
        files = sorted(registry.files().values())
        self._common = [images.fingerprint, str(images.conversion), *settings, *files]
        self.decisive = [LAYOUT, VERSION, own, described, *self._common]

    def folder(self, observation: Observation) -> str:
        """Return the folder of an observation's shards."""
        spec = registry.spec(observation)
        decisive = self._of_surrogate(observation.surrogate) if observation.surrogate else self.decisive
        others = [self._surrogates.identity(read.surrogate) for read in observation.prerequisites() if read.surrogate]
        return f"cache/{digest([decisive, spec, *others, *self._labels_read(observation), *files_read(spec)])}"

    def _of_surrogate(self, spec: str) -> list[Any]:
        """Return what decides what is seen of a surrogate: it, and the pixels, whichever encoder is audited."""
        geometry = self._images.geometry and replace(self._images.geometry, source="")
        pixels = [str(geometry), list(self._images.shape)]
        return [LAYOUT, VERSION, *self._surrogates.identity(spec), *pixels, *self._common]

    def _labels_read(self, observation: Observation) -> list[str | None]:
        """Return the fingerprints of what else an observation depends on: training images, labels of both."""
        train, images = self._train, self._images
        known: list[str | None] = [] if train is None else [train.fingerprint, str(train.conversion)]
        if not observation.needs_labels:
            return known if observation.scope.training else []
        return [images.labels_fingerprint, *known, *([] if train is None else [train.labels_fingerprint])]


def _describe_encoder(encoder: Encoder, geometry: Geometry | None) -> list[str]:
    """Return what, beside the weights, decides the representation."""
    facts = {key: str(value) for key, value in encoder.origin.items()}
    return [str(encoder.module), str(geometry), *(f"{key}={facts[key]}" for key in sorted(facts))]
