"""What is known of the images of an audit, however they are rendered: which they are, and what reading them found."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from holdfast.core import Relevance
from holdfast.core.ids import Ids
from holdfast.runtime.errors import no_relevance
from holdfast.sources.data.shared.choice import Choice
from holdfast.sources.data.shared.in_words import labels_in_words, peculiarities_in_words
from holdfast.sources.data.shared.selection import Selection


class ChosenImages:
    """Images that were chosen from a source.

    Args:
        choice: which.
    """

    def __init__(self, choice: Choice):
        self._choice = choice

    def __len__(self) -> int:
        return len(self._choice.rows)

    def __str__(self) -> str:
        return self._choice.reader.name

    @property
    def runs(self) -> int:
        """How many run folders lie among the files of the source, whose pictures are left out."""
        return self._choice.source.runs

    @property
    def available(self) -> int:
        """How many images the source has."""
        return self._choice.reader.count

    @property
    def ids(self) -> Ids:
        """The ids of the images, in the order of the audit."""
        return self._choice.ids

    @property
    def labels(self) -> list[int] | None:
        """The classes of the images, in the same order; None unless the source knows them all."""
        return self._choice.labels

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes by their numbers; empty where the source does not know them."""
        return self._choice.classes

    @property
    def relevance(self) -> Relevance | None:
        """Which images are relevant to which, by their places; None where they are no retrieval task.

        Reads all of them once, for whether queries are in the corpus too.
        """
        return self._choice.relevance

    @property
    def queries(self) -> int | None:
        """How many of the images, the first ones, are queries of a retrieval task; None where they are none."""
        relevance = self._choice.source.relevance
        return None if relevance is None else int(relevance.queries[self._choice.rows].sum())

    def check_relevance(self, readers: str) -> None:
        """Refuse images that are no retrieval task, or lack what is relevant to its queries; reads none of them.

        Args:
            readers: names of the measures that ask for one.

        Raises:
            HoldfastError: such images.
        """
        if (relevance := self._choice.source.relevance) is None:
            raise no_relevance(readers, str(self))
        relevance.among(self._choice.rows.tolist()).complete()

    def number_classes_as(self, reference: "ChosenImages") -> None:
        """Give every class the number that a class of the same name has among other images; without names, nothing.

        Raises:
            HoldfastError: names that the others do not have.
        """
        self._choice.renumber(reference.classes, str(reference))

    @property
    def labels_fingerprint(self) -> str | None:
        """SHA-256 of the (id, class) of the chosen images in the order of ids; None without labels.

        Apart from `fingerprint`, which says what encoders see: audits that read no labels do not depend on them.
        """
        if (labels := self.labels) is None:
            return None
        sha256, names = hashlib.sha256(), list(self.ids)
        for place in sorted(range(len(names)), key=names.__getitem__):
            sha256.update(f"{names[place]!r} {labels[place]}\n".encode())
        return sha256.hexdigest()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the ids and the decoded content of the chosen images; reads all of them once.

        Independent of geometry and order, so that audits of different encoders can be told to be paired.
        """
        return self._choice.fingerprint

    def leave_out(self, excluded: "ChosenImages") -> int:
        """Leave out the images that are among others, by their decoded content; return how many they were.

        Reads all images of both once. Fewer than two may remain.
        """
        return self._choice.leave_out(excluded._choice)

    @property
    def different(self) -> int:
        """How many different contents the images have; reads all of them once."""
        return len(np.unique(self._choice.digests, axis=0))

    def leave_out_unlabelled(self) -> int:
        """Leave out the images without a label where others have one; return how many they were.

        Reads all images once. Fewer than two may remain.
        """
        return self._choice.leave_out_unlabelled()

    @property
    def label_coverage(self) -> tuple[int, str]:
        """How many of the images have a label, and why none is read where one of them is no class."""
        return self._choice.label_coverage

    def read_again(self) -> list[tuple[str, str]]:
        """Return the (id, how) of some images across the set: how each has changed since they were read; "": not."""
        return self._choice.read_again()

    @property
    def files(self) -> Sequence[Path] | None:
        """The files that the images are read from, see `ImageSource.files`; None where others decide which they are."""
        return self._choice.files

    @property
    def selection(self) -> Selection:
        """What reading all images tells; for `recall` in other processes."""
        return self._choice.selection

    def recall(self, memory: Selection) -> None:
        """Take over what another process found out about the same images.

        Raises:
            HoldfastError: a source of another size: files came or went meanwhile.
        """
        self._choice.recall(memory)

    @property
    def unreadable(self) -> list[tuple[str, str]]:
        """The (id, reason) of every image that could not be read and was replaced."""
        return self._choice.unreadable

    @property
    def duplicates(self) -> list[tuple[str, str, int]]:
        """Every image that looks like an earlier one, as (id, id of that one, grey levels), see `LookAlikes`.

        Reads all of them once. They are among the images, unless `skip_duplicates` replaced them.
        """
        return self._choice.duplicates

    @property
    def skips_duplicates(self) -> bool:
        """Whether images that look like an earlier one were replaced."""
        return self._choice.skip_duplicates

    def note(self) -> None:
        """Take the digest of every image that is read from now on, so that none is read again for the fingerprint."""
        self._choice.note()

    @property
    def notes(self) -> list[str]:
        """What was not read, and what was done with images of unusual kind: a line each; reads all images once."""
        lines = [*self._choice.notes, labels_in_words(len(self), *self.label_coverage)]
        return [*filter(None, lines), *peculiarities_in_words(self._choice.traits)]
