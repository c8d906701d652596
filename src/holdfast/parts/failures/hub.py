"""Made a hub: f(x') stands among the first k results of many searches."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import AnyDivergence, Event, Failure, Shard
from holdfast.core.registry import part_name
from holdfast.numerics.geometry.index import Index
from holdfast.numerics.geometry.rescaling import Rescaling
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.failures.shared.population import bank_of
from holdfast.parts.rescalings.plain import Plain
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue

TEMPERATURE = 0.1
"""Of the smooth count that searches follow, in units of how far the middle query is from being taken."""

NEAR = 128
"""Queries whose gradients a search follows: those that weigh most in the smooth count."""


@dataclass(frozen=True)
class Hub(Failure):
    """f(x') is among the first k results of at least a share of the queries, which are the other images.

    Every image of the population is a query, and the index holds all others, x' in the place of x. The value is (n(x')
    - m + s(x')) / Q: n of Q queries have x' strictly nearer than the k-th of the others, m is the share in whole
    queries, and s in (0, 1) a smooth count that gives the value a gradient: the mean of σ((r_q - d(q, f')) / τ u), with
    r_q the distance of that k-th and u the median of |r_q - d(q, f(x))|.

    Attributes:
        k: how many results are looked at.
        share: of the queries.
        queries: "all", or "known": every second image alone, so that the others are queries that no search has seen.
        divergence: how representations are compared.
        rescaling: what searches make of a distance, against hubs; the search for a hub knows it.

    Source: adversarial hubs as in Zhang et al. (2024).

    Example:
        >>> from holdfast.core import Encoder, Rng
        >>> clean, identity = torch.tensor([[0.0], [1.0], [3.0]]), Encoder(torch.nn.Flatten(), mean=0, std=1)
        >>> shard = Shard(identity, clean.view(3, 1, 1, 1), torch.arange(3), Rng(0, ids=("a", "b", "c")), clean)
        >>> event = Hub(k=1, share=1.0).bind(shard)
        >>> (event(torch.tensor([[[3.5], [0.5]]]), torch.tensor([2])) > 0).tolist()  # of 0 and 1 the nearest is 1 away
        [[False, True]]
    """

    k: Count = 1
    share: float = 0.01
    queries: Literal["all", "known"] = "all"
    divergence: AnyDivergence = L2()
    rescaling: Rescaling = Plain()

    against_all = True

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise BadValue(f"hub: share: expected a share of the queries in (0, 1], got {self.share:g}")

    @property
    def by(self) -> str:
        """What searches go by."""
        return f"{self.divergence}" if self.rescaling.plain else f"{self.divergence}, {part_name(self.rescaling)}"

    @property
    @override
    def provable(self) -> bool:
        return False

    @property
    @override
    def title(self) -> str:
        which = "known queries" if self.queries == "known" else "queries"
        return f"among the first {self.k} of {100 * self.share:g} % of {which}, {self.by}"

    @property
    @override
    def clause(self) -> str:
        return f"are among the first {self.k} results of {100 * self.share:g} % of all searches"

    def bind(self, shard: Shard) -> Event:
        """Return the event against the whole population.

        Raises:
            HoldfastError: too few images for lists of k others and one more.
        """
        bank, own = bank_of(shard, "hub")
        index = Index.of(bank.cpu(), self.k, self.divergence, self.rescaling)
        asked, own = torch.arange(len(bank))[:: 2 if self.queries == "known" else 1], own.cpu()
        # How near x' must come to each query, [B, Q]; the search for x itself is no query
        reach = index.reach_without(own)[:, asked]
        others = ~reach.isinf()
        counts = others.sum(1)
        # The share in whole queries, where rounding must not ask for one more
        enough = (self.share * counts - 1e-9).ceil().clamp_min(1)
        lead_at_x = reach - index.apart(index.reps[own], own)[:, asked]
        unit = TEMPERATURE * _middle(lead_at_x.abs(), others)

        def event(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
            rows = rows.cpu().repeat_interleave(reps.shape[1])
            moved = reps.double().flatten(0, 1)
            with torch.no_grad():
                # Values need all queries, [rows · draws, Q]
                lead = reach[rows] - index.apart(moved.cpu(), own[rows])[:, asked]
                smooth = (lead / unit[rows, None]).sigmoid()
                total = (smooth.sum(1) / counts[rows]).clamp(1e-9, 1 - 1e-9)
                # What rounding makes nearer is no nearer: the same image in another batch
                value = ((lead > index.slack).sum(1) - enough[rows] + total) / counts[rows]
            value = value.to(moved.device)
            if reps.requires_grad:
                # Zero, with the gradient of the smooth count by those queries that weigh most in it
                steep = smooth * (1 - smooth) / (unit * counts.square())[rows, None]
                weights, near = steep.topk(min(NEAR, len(asked)), dim=1)
                along = -(weights.to(moved) * index.pursue(moved, own[rows], asked[near])).sum(1)
                value = value + (along - along.detach())
            return value.unflatten(0, reps.shape[:2])

        return event


def _middle(values: Float[Tensor, "rows queries"], among: Bool[Tensor, "rows queries"]) -> Float[Tensor, "rows"]:
    """Return the median of some values of each row; 1 where it is 0."""
    middle = values.masked_fill(~among, math.nan).nanmedian(1).values
    return torch.where(middle > 0, middle, 1.0)
