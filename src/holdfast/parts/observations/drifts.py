"""Certified drift: the box that holds every representation of a ball."""

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Ball, Certifier, Margin, Passes, Shard
from holdfast.core.registry import part_name
from holdfast.numerics.geometry.directions import unit
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.observations.attacked import partners
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.observations.shared.margins import clean_of, pieces
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class Drifts(OfFirst):
    """Where the representations of a ball are: bounds of linear functions of f(x'), all from one propagation.

    `low` and `high` [M, D], the range of every coordinate of f(x') - f(x); `along` [M], the least of
    f(x)/||f(x)|| · f(x'); `apart` [M], the least of u · (f(x') - f(t)) with u = (f(x) - f(t)) / ||f(x) - f(t)|| and t
    the image's partner, which ||f(x') - f(t)|| is never below; `vacuous` [M], the share of these that say nothing.

    Attributes:
        certifier: how to bound.
        ball: where x' may be.
    """

    certifier: Certifier = Crown()
    ball: Ball = Linf()

    @property
    @override
    def title(self) -> str:
        return f"certified drift: {part_name(self.certifier)}, {self.ball.title}"

    @property
    def passes(self) -> Passes:
        """No encoder pass; one bound propagation."""
        return Passes(bounds=1)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Bound the drift of one shard."""
        # rows of the margin: ±(f(x') - f(x)) in every coordinate, f(x') along f(x), and along the way from the partner
        clean = clean_of(shard)
        own, partner = clean[shard.positions], clean[partners(shard.positions)]
        dim = own.shape[1]
        eye = torch.eye(dim, dtype=own.dtype, device=own.device).expand(len(own), -1, -1)
        away = unit(own - partner)
        weights = torch.cat([eye, -eye, unit(own)[:, None], away[:, None]], 1)
        # One for each row, [M, 2 D + 2]: f(x') - f(x), its negative, f(x') along
        # f(x), and the way from the partner
        bias = torch.cat([-own, own, torch.zeros_like(own[:, :1]), -(away * partner).sum(1, keepdim=True)], 1)
        margin = Margin(weights, bias)
        # one bound propagation for all rows of an image
        bounds = [
            self.certifier(shard.encoder, margin.part(part), shard.x[part], self.ball)
            for part in pieces(shard.x, weights.shape[1])
        ]
        lower = torch.cat([bound.lower for bound in bounds]).double().cpu()
        vacuous = torch.cat([bound.vacuous for bound in bounds]).double().mean(1).cpu()
        # of r = f(x') - f(x): max(r) = -min(-r)
        return {
            "low": lower[:, :dim],
            "high": -lower[:, dim : 2 * dim],
            "along": lower[:, -2],
            "apart": lower[:, -1],
            "vacuous": vacuous,
        }
