"""Relevance: which images of a corpus answer which queries, as the judgments (qrels) of a retrieval task say."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from holdfast.runtime.errors import NotEnough

OUTSIDE = -1
"""In place of a grade: the image is not in the index of the query."""


def _no_pairs() -> Int[Tensor, "0 2"]:
    return torch.empty(0, 2, dtype=torch.int64)


@dataclass(frozen=True)
class Relevance:
    """The judgments of a retrieval task: some images are queries, all others are the corpus, its index.

    Attributes:
        queries: whether each image is a query, [N].
        pairs: the query and the corpus image of each positive judgment, by their positions, [P, 2].
        grades: how relevant the image is to the query, above 0, [P].
        corpus: how many images the task's corpus has, whether or not all are here.
        skip_own: whether a query's own image is left out of its index.
        own: each query with each corpus image that is the very same, as far as is known, [C, 2].
        missing: how many images are not here that are relevant to a query.
    """

    queries: Bool[Tensor, "images"]
    pairs: Int[Tensor, "pairs 2"]
    grades: Int[Tensor, "pairs"]
    corpus: int
    skip_own: bool = False
    own: Int[Tensor, "copies 2"] = field(default_factory=_no_pairs)
    missing: int = 0

    def order(self, permutation: Int[Tensor, "images"], queries: int | None, size: int | None) -> Int[Tensor, "chosen"]:
        """Return images in the order in which an audit chooses them: queries, what is relevant to them, all others.

        Args:
            permutation: of all images.
            queries: how many of them, an even number, for images are attacked in pairs; no other is chosen. None: as
                many as fit, with what is relevant to them, into half of the images.
            size: how many images are chosen; None: all.
        """
        # In the order of the permutation: queries, then the corpus
        drawn = permutation[self.queries[permutation]]
        if queries is None:
            queries = len(drawn) if size is None else max(2, self._fitting(drawn, size // 2))
        first = drawn[: min(queries, len(drawn)) // 2 * 2]  # pairs of images, so an even number
        wanted = torch.zeros_like(self.queries)
        wanted[self.pairs[torch.isin(self.pairs[:, 0], first), 1]] = True
        corpus = permutation[~self.queries[permutation]]
        return torch.cat([first, corpus[wanted[corpus]], corpus[~wanted[corpus]]])

    def _fitting(self, drawn: Int[Tensor, "queries"], size: int) -> int:
        """Return how many queries, the first of some, fit into a number of images with what is relevant to them."""
        # When each query comes; what is no query comes after all of them
        place = torch.full((len(self.queries),), len(drawn)).scatter(0, drawn, torch.arange(len(drawn)))
        # the first query for which each image is needed
        needed = torch.full((len(self.queries),), len(drawn))
        needed = needed.scatter_reduce(0, self.pairs[:, 1], place[self.pairs[:, 0]], "amin")
        # How many images each query is the first to need; with itself they must fit into the size
        more = torch.bincount(needed, minlength=len(drawn) + 1)[: len(drawn)]
        return int(((more + 1).cumsum(0) <= size).sum())

    def among(self, rows: Sequence[int]) -> "Relevance":
        """Return the judgments of some images, by their places among these; nothing is known of `own`."""
        chosen = torch.tensor(rows, dtype=torch.int64)
        # Where each image stands among the chosen ones; -1 where it is not one of them
        places = torch.full((len(self.queries),), -1).scatter(0, chosen, torch.arange(len(chosen)))
        pairs = places[self.pairs]
        queried, here = pairs[:, 0] >= 0, (pairs >= 0).all(1)
        missing = len(self.pairs[queried & ~here, 1].unique())
        grades = self.grades[here]
        return Relevance(self.queries[chosen], pairs[here], grades, self.corpus, self.skip_own, missing=missing)

    def complete(self) -> "Relevance":
        """Return itself.

        Raises:
            HoldfastError: an image is not here that is relevant to a query.
        """
        if self.missing:
            raise NotEnough(
                f"retrieval task: expected all images that are relevant to its {int(self.queries.sum())} queries, got "
                f"{len(self.queries)} images without {self.missing} of them; add --attacked {int(self.queries.sum())} "
                f"--images {len(self.queries) + self.missing}, or attack fewer"
            )
        return self

    def grade_images(self, positions: Int[Tensor, "batch"]) -> Int[Tensor, "batch images"]:
        """Return how relevant every image is to some: its grade, 0 where it is not, OUTSIDE the index of a query.

        Images that are no queries have no index.

        Example:
            >>> judged = Relevance(torch.tensor([True, False, False]), torch.tensor([[0, 2]]), torch.tensor([3]), 2)
            >>> judged.grade_images(torch.tensor([0, 1])).tolist()
            [[-1, 0, 3], [-1, -1, -1]]
        """
        positions = positions.cpu()
        row = torch.full((len(self.queries),), -1).scatter(0, positions, torch.arange(len(positions)))
        judged, own = row[self.pairs[:, 0]], row[self.own[:, 0]]
        # A query's index holds all that are no queries
        grades = torch.where(self.queries[positions, None] & ~self.queries, 0, OUTSIDE)
        grades[judged[judged >= 0], self.pairs[judged >= 0, 1]] = self.grades[judged >= 0]
        if self.skip_own:
            grades[own[own >= 0], self.own[own >= 0, 1]] = OUTSIDE
        return grades

    def fingerprint(self, rows: Sequence[int], name: Callable[[int], str]) -> str:
        """Return the SHA-256 of what is relevant to the queries among some images, by ids and whatever the order.

        Args:
            rows: these images, by their positions.
            name: gives the id of an image.
        """
        queried = torch.isin(self.pairs[:, 0], torch.tensor(rows, dtype=torch.int64))
        judged = zip(self.pairs[queried].tolist(), self.grades[queried].tolist(), strict=True)
        # Sorted, so that the order of images and judgments does not matter
        lines = sorted(f"{name(query)!r} {name(image)!r} {grade}\n" for (query, image), grade in judged)
        return hashlib.sha256(f"{self.corpus} {self.skip_own}\n{''.join(lines)}".encode()).hexdigest()
