"""Outranked: a search for what an image was no longer returns it among the first k."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import AnyDivergence, Event, Failure, Shard
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.failures.shared.ahead import distances_ahead, in_units_at_x, rivals_ahead
from holdfast.parts.failures.shared.population import bank_of
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import no_labels, no_relevance, unknown

RELEVANT = ("original", "class", "qrels")
"""What may be searched for."""


@dataclass(frozen=True)
class Outranked(Failure):
    """At least k irrelevant images are strictly nearer to f(x') than every relevant one.

    The value is s_(k) - s_relevant over its size at x: the k-th largest score of an irrelevant image less the largest
    of a relevant one, with scores 2 f_j · f' - ||f_j||² (cosine: z_j · f'), which order images by nearness. It is -1 at
    x where x does not fail.

    Attributes:
        k: how many results are looked at; 1 is the failure `nearest`.
        relevant: "original", the image that was disturbed; "class", the other images of its class; "qrels", what a
            retrieval task judges to be relevant to a query, in its corpus.
        divergence: how representations are compared.

    Source: known-item search, see the measure `retrieval`.

    Example:
        >>> from holdfast.core import Encoder, Rng
        >>> clean, identity = torch.tensor([[0.0], [1.0], [3.0]]), Encoder(torch.nn.Flatten(), mean=0, std=1)
        >>> shard = Shard(identity, clean.view(3, 1, 1, 1), torch.arange(3), Rng(0, ids=("a", "b", "c")), clean)
        >>> event = Outranked(k=2).bind(shard)
        >>> (event(torch.tensor([[[0.9], [2.1]]]), torch.tensor([0])) > 0).tolist()
        [[False, True]]
    """

    k: Count = 10
    relevant: Literal["original", "class", "qrels"] = "original"
    divergence: AnyDivergence = L2()

    against_all = True

    def __post_init__(self) -> None:
        if self.relevant not in RELEVANT:
            raise unknown("relevant of the failure outranked", self.relevant, RELEVANT)

    @property
    def needs_labels(self) -> bool:
        """Whether classes say what is relevant."""
        return self.relevant == "class"

    @property
    @override
    def title(self) -> str:
        wanted = {"original": "the original", "class": "its class", "qrels": "what is relevant"}[self.relevant]
        return f"{wanted} not in the first {self.k}, {self.divergence}"

    @property
    @override
    def clause(self) -> str:
        return f"are not found among the first {self.k} results"

    def bind(self, shard: Shard) -> Event:
        """Return the event against the whole population.

        Raises:
            HoldfastError: a population of one image, classes without labels, or qrels that there are not.
        """
        bank, own = bank_of(shard, "outranked")
        wanted, rival = self._sides(shard, own)
        hopeless = ~wanted.any(1) | (rival.sum(1) < self.k)  # nothing to find, or too few to be outranked by
        divergence = self.divergence
        if not isinstance(divergence, LinearDivergence):
            return in_units_at_x(distances_ahead(divergence, bank, wanted, rival, self.k), bank[own], hopeless)
        scored = divergence.scores(bank)

        def ahead(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
            rows = rows.to(own.device)
            # [rows, S, N] scores of the whole population, of which each image has
            # its own wanted ones and rivals
            return rivals_ahead(scored(reps), wanted[rows], rival[rows], self.k)

        return in_units_at_x(ahead, bank[own], hopeless)

    def _sides(
        self, shard: Shard, own: Int[Tensor, "batch"]
    ) -> tuple[Bool[Tensor, "batch population"], Bool[Tensor, "batch population"]]:
        """Return which images are relevant, and which are not; what is not in the index is neither."""
        assert shard.clean is not None  # clean representations are always observed first
        if self.relevant == "qrels":
            if shard.relevance is None:
                raise no_relevance("the failure outranked, relevant = qrels,", "the audit's source of images")
            # What is not in the query's index has a grade below 0: it is neither wanted nor a rival
            grades = shard.relevance.complete().grade_images(own).to(own.device)
            return grades > 0, grades == 0
        # [B, N], as is all that follows
        itself = torch.arange(len(shard.clean), device=own.device) == own[:, None]
        if self.relevant == "original":
            return itself, ~itself
        if shard.labels is None:
            raise no_labels("the failure outranked, relevant = class,", "the source of images")
        labels = shard.labels.to(own.device)
        same = labels == labels[own, None]
        # The image's own original is in neither: a search for its class does not look for it
        return same & ~itself, ~same
