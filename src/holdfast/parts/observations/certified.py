"""Certified margins: what no image of a ball can undo, pair by pair."""

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Ball, Certifier, Passes, Shard
from holdfast.core.registry import part_name
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.observations.shared.margins import OfMargins, pieces
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class Certified(OfMargins):
    """Lower bounds of margins over the ball around each image, as `lower` [M, R], and `vacuous` [M, R].

    Where the rows are the whole population, an image has NaN against itself. All rows of an image share the ranges
    inside the network.

    Attributes:
        certifier: how to bound.
        ball: where x' may be.
    """

    certifier: Certifier = Crown()
    ball: Ball = Linf()

    @property
    @override
    def title(self) -> str:
        return f"margins, {self.rows}: {part_name(self.certifier)}, {self.ball.title}"

    @property
    def passes(self) -> Passes:
        """No encoder pass; one bound propagation."""
        return Passes(bounds=1)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Bound the margins of one shard."""
        assert shard.clean is not None  # clean representations are always observed first
        # Images are bounded a few at a time, because each row takes memory in every layer
        rows = self.comparisons or len(shard.clean)
        bounds = [self._bound(shard.select(part)) for part in pieces(shard.x, rows)]
        return {name: torch.cat([bound[name] for bound in bounds]) for name in bounds[0]}

    def _bound(self, shard: Shard) -> dict[str, Tensor]:
        # RVCL, Algorithm 1, line 5: a lower bound of Eq. 13 for each row (with a head, of Eq. 10)
        bound = self.certifier(shard.encoder, self.margins(shard), shard.x, self.ball)
        lower = bound.lower.double().cpu()
        if self.probe is None and self.negatives is None:
            # Against itself an image's margin is zero everywhere, which no bound can tell
            lower = lower.masked_fill(self.others(shard) == shard.positions[:, None], torch.nan)
        return {"lower": lower, "vacuous": bound.vacuous.cpu()}
