"""An index whose items search each other: among whose first k results an item stands, and how near it must come."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.numerics.geometry.directions import unit
from holdfast.numerics.geometry.divergence import Divergence, EuclideanDivergence
from holdfast.numerics.geometry.nearest import nearest_of_many
from holdfast.numerics.geometry.neighbour_lists import leave_out_own
from holdfast.numerics.geometry.pairwise import pairwise
from holdfast.numerics.geometry.rescaling import Rescaling
from holdfast.numerics.geometry.spread import rounding
from holdfast.runtime.errors import NotEnough

ROWS = 512
"""Queries whose distances from all items are held at once."""

ROUNDING = 1e-6
"""Share of a rescaled distance, or of one between no points, that rounding may change."""

GRADIENTS = 256
"""Images around an item whose gradients an attack follows, at most."""


@dataclass(frozen=True)
class Index:
    """An index of which every item is a query, too, that searches all others.

    Attributes:
        reps: representations of the items, in float64, [N, D].
        divergence: how they are compared.
        rescaling: what searches make of a distance.
        positions: the k + 1 nearest others of each item, nearest first, [N, k + 1].
        distances: how far these are, as searches see it, [N, k + 1].
        local: what `Rescaling.local` knows of each item, [N, numbers]; nothing of a plain one.
    """

    reps: Float[Tensor, "items dim"]
    divergence: Divergence
    rescaling: Rescaling
    positions: Int[Tensor, "items places"]
    distances: Float[Tensor, "items places"]
    local: Float[Tensor, "items numbers"]

    @classmethod
    def of(cls, reps: Float[Tensor, "items dim"], k: int, divergence: Divergence, rescaling: Rescaling) -> "Index":
        """Return the index of some items.

        Args:
            reps: representations, [N, D].
            k: places of a list of results, below N - 1.
            divergence: how representations are compared.
            rescaling: what searches make of a distance.

        Raises:
            HoldfastError: too few items for lists of k others and one more.

        Example:
            >>> from holdfast.parts.divergences.l2 import L2
            >>> from holdfast.parts.rescalings.plain import Plain
            >>> Index.of(torch.tensor([[0.0], [1.0], [3.0]]), 1, L2(), Plain()).positions.tolist()
            [[1, 2], [0, 2], [1, 0]]
        """
        if len(reps) < k + 2:
            raise NotEnough(
                f"an index: expected at least {k + 2} images, for lists of {k} results, got {len(reps)}; take more "
                "images, or a smaller k"
            )
        reps, own = reps.double(), torch.arange(len(reps))
        if rescaling.plain:
            positions, distances = nearest_of_many(reps, reps, k + 2, divergence)
            # An item may come after others that equal it, or not at all; whoever takes its place is as near as it is
            places = torch.arange(k + 2).expand_as(positions)
            kept = leave_out_own(torch.where(positions == own[:, None], -1, places), torch.full_like(own, -1))
            return cls(reps, divergence, rescaling, positions.gather(1, kept), distances.gather(1, kept), reps[:, :0])
        # Some queries at a time: first what is known of every item, then how far they are from each other
        rows = own.split(ROWS)
        local = torch.cat([rescaling.local(_others(pairwise(reps[some], reps, divergence), some)) for some in rows])
        positions, distances = [], []
        for some in rows:
            apart = rescaling(pairwise(reps[some], reps, divergence), local[some, None], local)
            apart[torch.arange(len(some)), some] = torch.inf
            # Stable, so that of equally near ones the first comes first
            near = apart.sort(dim=1, stable=True)
            positions.append(near.indices[:, : k + 1])
            distances.append(near.values[:, : k + 1])
        return cls(reps, divergence, rescaling, torch.cat(positions), torch.cat(distances), local)

    def hold(self, items: Int[Tensor, "some"]) -> Bool[Tensor, "some items"]:
        """Return among whose first k others some items stand.

        Example:
            >>> from holdfast.parts.divergences.l2 import L2
            >>> from holdfast.parts.rescalings.plain import Plain
            >>> Index.of(torch.tensor([[0.0], [1.0], [3.0]]), 1, L2(), Plain()).hold(torch.tensor([1])).tolist()
            [[True, False, True]]
        """
        return (self.positions[None, :, :-1] == items[:, None, None]).any(2)

    def reach_without(self, items: Int[Tensor, "some"]) -> Float[Tensor, "some items"]:
        """Return how near one has to come to each query to be among its first k, where an item has left the index.

        The distance of the k-th of the others: the next one moves up where the item was among them. From the item
        itself nothing is near enough: -∞.

        Example:
            >>> from holdfast.parts.divergences.l2 import L2
            >>> from holdfast.parts.rescalings.plain import Plain
            >>> index = Index.of(torch.tensor([[0.0], [1.0], [3.0]]), 1, L2(), Plain())
            >>> index.reach_without(torch.tensor([1])).tolist()
            [[3.0, -inf, 3.0]]
        """
        # One list for all items: each of them is in few
        reach = torch.where(self.hold(items), self.distances[:, -1], self.distances[:, -2])
        return reach.scatter(1, items[:, None], -torch.inf)

    @property
    def slack(self) -> float:
        """By how much rounding alone may bring the same item nearer to a query, in another batch, say.

        Of what is no distance between points, only by how much ties differ.

        Example:
            >>> from holdfast.parts.divergences.l2 import L2
            >>> from holdfast.parts.rescalings.plain import Plain
            >>> 0 < Index.of(torch.tensor([[0.0], [1.0], [3.0]]), 1, L2(), Plain()).slack < 1e-5
            True
        """
        if isinstance(self.divergence, EuclideanDivergence) and self.rescaling.plain:
            return float(rounding(self.reps, self.divergence.of_directions).max())
        return ROUNDING * float(self.distances.abs().max())

    def apart(self, moved: Float[Tensor, "some dim"], items: Int[Tensor, "some"]) -> Float[Tensor, "some items"]:
        """Return how far every query sees what stands in the place of an item.

        Args:
            moved: representations of what stands there, in float64.
            items: in whose place each of them stands.
        """
        # The query comes first: a divergence need not be symmetric
        apart = pairwise(self.reps, moved, self.divergence).T
        if self.rescaling.plain:
            return apart
        return self.rescaling(apart, self.local, self.rescaling.local(_others(apart, items))[:, None])

    def pursue(
        self, moved: Float[Tensor, "some dim"], items: Int[Tensor, "some"], queries: Int[Tensor, "some few"]
    ) -> Float[Tensor, "some few"]:
        """Return `apart` for a few queries of each, with the gradient that attacks follow.

        Args:
            moved: representations of what stands in the place of an item, in float64.
            items: in whose place.
            queries: which queries are asked, another few for each.
        """
        device = moved.device

        def from_some(some: Int[Tensor, "some few"]) -> Float[Tensor, "some few"]:
            return self.divergence.pursue(self.reps[some].to(device), moved[:, None].expand(-1, some.shape[1], -1))

        # Few queries, so that no graph of all of them is held
        apart = from_some(queries)
        if self.rescaling.plain:
            return apart
        # What an item is known by follows from the images around it, of which those count that `local` reads
        with torch.no_grad():
            near = pairwise(self.reps, moved.cpu(), self.divergence).T.scatter(1, items[:, None], torch.inf)
            count = min(GRADIENTS, near.shape[1] - 1)
            step = 1 if self.rescaling.near else max(1, (near.shape[1] - 1) // count)
            around = near.argsort(1)[:, :-1][:, ::step][:, :count]
        return self.rescaling(apart, self.local[queries].to(device), self.rescaling.local(from_some(around))[:, None])


def _others(apart: Float[Tensor, "some items"], own: Int[Tensor, "some"]) -> Float[Tensor, "some others"]:
    """Return the distances from all items but one."""
    itself = torch.arange(apart.shape[1]) == own[:, None]
    return apart[~itself].view(len(apart), -1)


def exclude(
    queries: Float[Tensor, "queries dim"],
    reach: Float[Tensor, "some queries"],
    reps: Float[Tensor, "some dim"],
    of_directions: bool,
) -> tuple[Float[Tensor, "some queries dim"], Float[Tensor, "some queries"]]:
    """Return half-spaces that hold no representation within reach of a query: w · f' + b > 0 is far enough.

    What is within reach of q is a ball of radius r, or the cone of directions within the angle whose cosine is c = 1 -
    r. Both are convex, so the half-space that touches it at the point nearest to f holds none of it:

        ℓ2:      u · (f' - q) > r,       u = (f - q) / ||f - q||
        cosine:  n · f' > 0,             n ⊥ p, the ray of the cone nearest to f; only where c > 0

    The weights are unit vectors: w · f + b is how far f is from what it must not enter. Where f is within reach, or
    the cone is none (c <= 0), and where r is -∞, the half-space is empty: w = 0, and b = -1 or 0.

    Args:
        queries: q in float64, [Q, D].
        reach: r of each query, by ℓ2 or by the cosine distance, [B, Q].
        reps: f in float64, [B, D].
        of_directions: whether r are cosine distances.

    Returns:
        w, [B, Q, D], and b, [B, Q].

    Example:
        >>> w, b = exclude(torch.zeros(1, 2), torch.tensor([[1.0]]), torch.tensor([[3.0, 0.0]]), False)
        >>> w.tolist(), b.tolist()
        ([[[1.0, 0.0]]], [[-1.0]])
    """
    if of_directions:
        z, q = unit(reps)[:, None], unit(queries)[None]
        along = (z * q).sum(-1)  # the cosine of the angle between f and q, [B, Q]
        c = (1 - reach).clamp(-1, 1)  # of -∞, where nothing is asked, any
        # In the plane of q and f: e ⊥ q, on the side of f
        aside = z - along[..., None] * q
        e = aside / aside.norm(dim=-1, keepdim=True).clamp_min(1e-300)
        # The ray at the angle arccos c is c q + s e; its normal, away from q, -s q + c e
        s = (1 - c.square()).sqrt()
        weights, bias = c[..., None] * e - s[..., None] * q, torch.zeros_like(c)
        outside = (along < c) & (c > 0) & reach.isfinite()
    else:
        away = reps[:, None] - queries[None]
        apart = away.norm(dim=-1)
        # The nearest point of the ball lies on the way from its middle
        weights = away / apart[..., None].clamp_min(1e-300)
        bias = -(weights * queries[None]).sum(-1) - reach.clamp_min(0)
        outside = (apart > reach) & reach.isfinite()
    # Of cosines rows without a bias alone can be bounded through a normalised output, and such a row proves nothing
    nothing = 0.0 if of_directions else -1.0
    return weights.masked_fill(~outside[..., None], 0.0), bias.masked_fill(~outside, nothing)
