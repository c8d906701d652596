"""Certified margins: what no image of a ball can undo, pair by pair."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.certify.crown import Crown
from holdfast.core import Ball, Certifier, Margin, Passes, Shard
from holdfast.observations._some import Some, pair_margins, pieces
from holdfast.registry import part_name
from holdfast.threats.linf import Linf


@dataclass(frozen=True)
class Certified(Some):
    """Lower bounds of the margins between an image and others over its ball, as `lower` [M, R], and `vacuous` [M, R].

    Columns are the population (where the image itself has NaN), or its negatives, in the order of the draw. All
    rows of an image share the ranges inside the network.

    Attributes:
        certifier: how to bound.
        ball: where x' may be.
        negatives: how many are drawn for each image; None: all images of the population.
        divergence: "cosine" or "l2", see `margins.between`.
    """

    certifier: Certifier = Crown()
    ball: Ball = Linf()
    negatives: int | None = None
    divergence: str = "l2"

    @property
    def _whom(self) -> str:
        return "whole population" if self.negatives is None else f"{self.negatives} negatives"

    @property
    def title(self) -> str:
        """What it observes, in a few words."""
        return f"margins, {self._whom}: {part_name(self.certifier)}, {part_name(self.ball)} {self.ball.radius:g}"

    @property
    def passes(self) -> Passes:
        """No encoder pass; one bound propagation."""
        return Passes(bounds=1)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Bound the margins of one shard."""
        rows = len(shard.clean) if self.negatives is None and shard.clean is not None else self.negatives or 1
        found = [self._bound(shard, part) for part in pieces(shard.x, rows)]
        return {name: torch.cat([bound[name] for bound in found]) for name in found[0]}

    def _bound(self, whole: Shard, part: slice) -> dict[str, Tensor]:
        rng = whole.rng.at(whole.rng.ids[part])
        shard = Shard(whole.encoder, whole.x[part], whole.positions[part], rng, whole.clean)
        margin, others = pair_margins(shard, self.negatives, self.divergence)
        bound = self.certifier(shard.encoder, Margin(margin.weights, margin.bias), shard.x, self.ball)
        lower = bound.lower.double().cpu().masked_fill(others == shard.positions[:, None], torch.nan)
        return {"lower": lower, "vacuous": bound.vacuous.cpu()}
