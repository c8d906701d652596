"""Confused with one of its negatives: a pair margin of RVCL turns negative."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import AnyDivergence, Event, Failure, Margin, Rivals, Shard
from holdfast.core.divergence import require
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.numerics.geometry.negatives import draw_negatives
from holdfast.numerics.geometry.spread import level, rounding
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.failures.shared.alike import LEAST
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Confused(Failure):
    """min_k m_k(x') < 0 for the pair margins against K negatives, other images that the seed draws for each image.

    The margins are those of `LinearDivergence.between`, so certificates of pairs speak about the same event. The value
    is -min_k m_k(x') / min_k m_k(x): -1 without a disturbance.

    Attributes:
        negatives: K; all other images where there are fewer.
        divergence: one with linear margins.

    Source: Wang & Liu (2023), Eq. 11 to 13.

    Example:
        >>> from holdfast.core import Encoder, Rng
        >>> clean, identity = torch.eye(2), Encoder(torch.nn.Flatten(), mean=0, std=1)
        >>> shard = Shard(identity, clean.view(2, 1, 1, 2), torch.arange(2), Rng(0, ids=("a", "b")), clean)
        >>> event = Confused().bind(shard)
        >>> (event(torch.tensor([[[0.9, 0.1], [0.1, 0.9]]]), torch.tensor([0])) > 0).tolist()
        [[False, True]]
    """

    negatives: int = 10
    divergence: AnyDivergence = Cosine()

    def __post_init__(self) -> None:
        require(self.divergence, LinearDivergence, "divergence of the failure confused")
        if self.negatives < 1:
            raise BadValue(f"the failure confused: expected at least 1 negative, got {self.negatives}")

    @property
    @override
    def title(self) -> str:
        return f"confused with one of {self.negatives} images, {self.divergence}"

    def bind(self, shard: Shard) -> Event:
        """Return the event against the negatives of each image."""
        margin, level, _ = self._margins(shard)
        assert shard.clean is not None  # clean representations are always observed first
        clean = shard.clean.to(shard.x.device).double()
        # min_k m_k(x) over the negatives that do not look alike: the unit in
        # which x itself has the value -1
        least = margin(clean[shard.positions]).masked_fill(level, torch.inf).amin(1)
        # Not above zero where another image stands at x too, infinite where
        # all negatives are alike: no unit
        scale = torch.where((least > 0) & least.isfinite(), least, 1.0)

        def event(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
            rows = rows.to(scale.device)
            # RVCL, Eq. 12 (for the cosine), for all draws of an image:
            # [rows, S, D] @ [rows, D, K] + [rows, 1, K]
            margins = reps.double() @ margin.weights[rows].mT + margin.bias[rows, None]
            lowest = margins.masked_fill(level[rows, None], torch.inf).amin(2)
            # All negatives alike leave -∞, which no search could climb from
            return (-lowest / scale[rows, None]).clamp_min(LEAST)

        return event

    def rivals(self, shard: Shard, count: int | None = None) -> Rivals:
        """Return the margins against the negatives, smallest first; they are 1 where images look alike."""
        margin, level, negatives = self._margins(shard)
        assert shard.clean is not None  # clean representations are always observed first
        clean = shard.clean.to(shard.x.device).double()
        # The rivals that x is nearest to come first; of those that look alike, which come
        # last, the margin is the constant 1
        order = margin(clean[shard.positions]).masked_fill(level, torch.inf).argsort(dim=1, stable=True)[:, :count]
        none = level.gather(1, order)
        images = torch.arange(len(order), device=order.device)[:, None]
        weights = margin.weights[images, order].masked_fill(none[..., None], 0.0)
        bias = margin.bias[images, order].masked_fill(none, 1.0)
        return Rivals(Margin(weights, bias), negatives.gather(1, order.cpu()))

    def identify(self, shard: Shard, reps: Float[Tensor, "batch dim"]) -> Int[Tensor, "batch"]:
        """Return the negative with the smallest margin; none of those that look alike."""
        margin, level, negatives = self._margins(shard)
        # Alike ones at infinity, so that argmin takes one of them only where there are no others
        margins = margin(reps.double()).masked_fill(level, torch.inf)
        nearest = negatives.gather(1, margins.argmin(1, keepdim=True).cpu()).squeeze(1)
        return nearest.masked_fill(level.all(1).cpu(), -1)

    def _margins(self, shard: Shard) -> tuple[Margin, Bool[Tensor, "batch rows"], Int[Tensor, "batch rows"]]:
        """Return the margins against the negatives, which of these look like the image itself, and where they stand."""
        assert shard.clean is not None  # clean representations are always observed first
        clean = shard.clean.to(shard.x.device).double()
        count = min(self.negatives, len(clean) - 1)
        negatives = draw_negatives(shard.rng, shard.positions, len(clean), count)
        divergence = require(self.divergence, LinearDivergence, "divergence of the failure confused")
        margin = divergence.between(clean[shard.positions], clean[negatives])
        points = divergence.points(clean)
        apart = (points[shard.positions, None] - points[negatives]).norm(dim=2)
        places = (rows.to(clean.device) for rows in (shard.positions, negatives))
        # the same picture twice: no failure
        alike = level(apart, rounding(clean, divergence.of_directions), *places)
        return margin, alike, negatives.cpu()
