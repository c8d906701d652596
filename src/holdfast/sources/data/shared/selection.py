"""What reading the images of a choice has found."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from holdfast.sources.data.shared.contents import Traits
from holdfast.sources.data.shared.rows_on_disk import RowsOnDisk

DIGEST = 32
"""Bytes of a SHA-256."""


@dataclass(frozen=True)
class Selection:
    """What reading all its images tells of a choice; spares other processes to read them again.

    Attributes:
        available: how many images the source has.
        rows: where the chosen images stand in it, integers.
        fingerprint: see `Choice.fingerprint`.
        skipped: the (id, reason) of every image that was replaced.
        duplicates: see `Choice.duplicates`.
        mixed: whether pictures of several sizes are among them.
        own: of a retrieval task, the places of queries and of images of the corpus that have their content.
        traits: how many images have which traits.
        samples: see `Choice.samples`.
        copies: which images show the picture of an earlier one and are no look-alikes, see `ImageSet.duplicates`.
    """

    available: int
    rows: np.ndarray
    fingerprint: str
    skipped: list[tuple[str, str]]
    duplicates: list[tuple[str, str, int]]
    mixed: bool = False
    own: list[tuple[int, int]] = field(default_factory=list)
    traits: Counter[Traits] = field(default_factory=Counter)
    samples: list[tuple[int, bytes]] = field(default_factory=list)
    copies: list[tuple[str, str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Survey:
    """What reading images in the order of an audit has found, until enough were good.

    Attributes:
        rows: where the chosen images stand in their source, integers.
        digests: SHA-256 of the decoded content of each.
        skipped: the (id, reason) of every image that could not be read.
        duplicates: see `Choice.duplicates`.
        mixed: whether pictures of several sizes were among them.
        traits: those that any image has.
        trait_of: the number of each image's among them.
    """

    rows: np.ndarray
    digests: RowsOnDisk
    skipped: list[tuple[str, str]]
    duplicates: list[tuple[str, str, int]]
    mixed: bool
    traits: tuple[Traits, ...] = ()
    trait_of: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
