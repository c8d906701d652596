"""Taken for any other image: the clean representation nearest to f(x') is no longer f(x)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import AnyDivergence, Event, Failure, Margin, Rivals, Shard
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.divergence import DistanceMargin, EuclideanDivergence, LinearDivergence
from holdfast.numerics.geometry.spread import level, rounding
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.failures.shared.ahead import distances_ahead, in_units_at_x
from holdfast.parts.failures.shared.alike import LEAST
from holdfast.parts.failures.shared.population import bank_of


@dataclass(frozen=True)
class Nearest(Failure):
    """f(x') is strictly nearer to another clean representation f_j of the population than to its own, f_i.

    The nearest clean representation is the class of a linear classifier with as many classes as images, so this is
    misclassification without labels. The value is the signed distance of f(x') from the nearest of the boundaries
    between f_i and f_j, max_j [||f' - f_i||² - ||f' - f_j||²] / 2||f_i - f_j||, in units of that distance without a
    disturbance: -1 at x, 0 on a boundary. cosine: the same with unit vectors instead of f_i and f_j. Images that
    look alike to the encoder (equal up to rounding) are not told apart, which is no failure.

    Of other divergences the value is how much nearer the nearest other image is, in units of that at x, where f(x) is
    nearest to itself.

    Attributes:
        divergence: how representations are compared; certificates need one with linear margins.

    Source: the event of the breakaway risk, Eq. 1 of Petrov & Kwiatkowska (2022).

    Example:
        >>> from holdfast.core import Encoder, Rng
        >>> clean, identity = torch.eye(2), Encoder(torch.nn.Flatten(), mean=0, std=1)
        >>> shard = Shard(identity, clean.view(2, 1, 1, 2), torch.arange(2), Rng(0, ids=("a", "b")), clean)
        >>> event = Nearest().bind(shard)
        >>> (event(torch.tensor([[[0.9, 0.1], [0.1, 0.9]]]), torch.tensor([0])) > 0).tolist()
        [[False, True]]
    """

    divergence: AnyDivergence = L2()

    at_others = True
    against_all = True

    @property
    @override
    def provable(self) -> bool:
        return isinstance(self.divergence, LinearDivergence)

    @property
    @override
    def title(self) -> str:
        return f"another image is nearer, {self.divergence}"

    @property
    @override
    def clause(self) -> str:
        return "are taken for another one"

    @property
    @override
    def definition(self) -> str:
        return (
            "An image is taken for another one if its representation is nearer to that of any other image than to "
            "that of its own original."
        )

    def bind(self, shard: Shard) -> Event:
        """Return the event against the whole population.

        Raises:
            HoldfastError: a population of one image.
        """
        bank, own = bank_of(shard, "nearest")
        apart, level = self._apart(bank, own)
        divergence = self.divergence
        # Without boundaries at equal distances the unit is the lead at x
        if not isinstance(divergence, EuclideanDivergence):
            itself = torch.arange(len(bank), device=bank.device) == own[:, None]
            return in_units_at_x(distances_ahead(divergence, bank, itself, ~level), bank[own], level.all(1))
        # the distance from a boundary as a linear function of f': scores, less those of the image itself
        scored = divergence.scores(bank)
        # f' is (s_j - s_i) / 2||f_j - f_i|| from a boundary, x ||f_j - f_i|| / 2 from the nearest
        # one; for the cosine (s_j - s_i) / ||z_j - z_i|| and ||f_i|| ||z_j - z_i|| / 2. The
        # quotients are (s_j - s_i) / (length · room · apart).
        length = divergence.lead(bank[own])
        # in units of the distance from the nearest boundary; twins are no boundary
        room = apart.masked_fill(level, torch.inf).amin(1)
        units = ((length * room)[:, None] * apart).masked_fill(level, 1.0)

        def event(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
            rows = rows.to(own.device)
            # Values need the whole population, gradients one rival alone: the first
            # product is kept out of the graph
            with torch.no_grad():
                scores = scored(reps)
                own_scores = scores.gather(2, own[rows, None, None].expand(-1, reps.shape[1], 1))
                ahead = ((scores - own_scores) / units[rows, None]).masked_fill(level[rows, None], -torch.inf)
                value = ahead.amax(2)
            if reps.requires_grad:
                # the gradient of two scores, of the image ahead and of the own one: that of all takes a whole product
                first = ahead.argmax(2)
                unit_ahead = units[rows, None].expand_as(ahead).gather(2, first[..., None])
                normal = (scored.weights[first] - scored.weights[own[rows], None]) / unit_ahead
                along = (reps.double() * normal).sum(2)
                # Zero, with the gradient of the image ahead
                value = value + (along - along.detach())
            return value.clamp_min(LEAST)

        return event

    def rivals(self, shard: Shard, count: int | None = None) -> Rivals:
        """Return the margins against the other images, those with the nearest representations first.

        Images that look alike to the encoder are no rivals; where they are among the `count`, their margins are 1.
        """
        bank, own = bank_of(shard, "nearest")
        apart, level = self._apart(bank, own)
        divergence = self.divergence
        if not isinstance(divergence, EuclideanDivergence):
            apart = pairwise.pairwise(bank[own].cpu(), bank.cpu(), divergence).to(bank.device)
        apart = apart.masked_fill(level, torch.inf)
        # All but the image itself, which is level with itself and so comes last
        order = apart.argsort(dim=1, stable=True)[:, : min(count or len(bank), len(bank) - 1)]
        none = apart.gather(1, order).isinf()
        if not isinstance(divergence, LinearDivergence):
            return Rivals(DistanceMargin(divergence, bank[own], bank[order], none), order.cpu())
        # RVCL, Eq. 12 (cosine), or the same for Euclidean distances: linear in f(x')
        margins = divergence.between(bank[own], bank[order])
        weights, bias = margins.weights.masked_fill(none[..., None], 0.0), margins.bias.masked_fill(none, 1.0)
        return Rivals(Margin(weights, bias), order.cpu())

    def identify(self, shard: Shard, reps: Float[Tensor, "batch dim"]) -> Int[Tensor, "batch"]:
        """Return the nearest other image; none of those that look like the image itself to the encoder."""
        bank, own = bank_of(shard, "nearest")
        _, level = self._apart(bank, own)
        divergence = self.divergence
        if isinstance(divergence, LinearDivergence):
            scores = divergence.scores(bank)(reps)
        else:
            scores = -pairwise.pairwise(reps.cpu(), bank.cpu(), divergence).to(bank.device)
        return scores.masked_fill(level, -torch.inf).argmax(1).masked_fill(level.all(1), -1).cpu()

    def _apart(
        self, bank: Float[Tensor, "population dim"], own: Int[Tensor, "batch"]
    ) -> tuple[Float[Tensor, "batch population"], Bool[Tensor, "batch population"]]:
        """Return how far the population is from each image, and what is level with it: itself, and its twins."""
        points = self.divergence.points(bank)
        # On the CPU in float64, where the blocks of `pairwise` are made; [B, N]
        apart = pairwise.pairwise(points[own].cpu(), points.cpu(), L2()).to(bank.device)
        made = rounding(bank, self.divergence.of_directions)
        return apart, level(apart, made, own, torch.arange(len(bank), device=bank.device))
