"""Certified radii of a linear head by separate bounds of its logits, the authors' looser comparison."""

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Ball, Certifier, LinearProbe, Margin, Passes, PerImage, Shard
from holdfast.core.registry import part_name
from holdfast.core.threat import image_shape
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.observations.shared.first import OfAnyRadius, OfFirst
from holdfast.parts.probes.linear import Linear
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, no_labels


@dataclass(frozen=True)
class LogitRadii(OfAnyRadius, OfFirst):
    """The largest ε found with lb_y > max_{j≠y} ub_j, bounds of the logits over the ball, as `radius` [M] in pixels.

    The margins e_y - e_j of `Radii` are never looser: min (z_y - z_j) >= min z_y - max z_j.

    Attributes:
        certifier: how to bound.
        ball: the norm; its radius is not read.
        probe: the linear head.
        halvings: of the interval from 0 to the largest distance between two images.

    Source: Wang & Liu (2023), section 4.2 (ACR_LE), as its authors compute it.
    """

    certifier: Certifier = Crown()
    ball: Ball = Linf()
    probe: LinearProbe = Linear()
    halvings: int = 20

    reads_labels = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.halvings < 1:
            raise BadValue(f"logit_radii: halvings: expected at least 1, got {self.halvings}")

    @property
    @override
    def title(self) -> str:
        return f"certified radii, separate logits ({part_name(self.probe)}): {part_name(self.certifier)}"

    @property
    def passes(self) -> Passes:
        """No encoder pass; one bound propagation for each halving."""
        return Passes(bounds=self.halvings)

    @override
    def run(self, shard: Shard) -> dict[str, Tensor]:
        if shard.labels is None or shard.head is None:
            raise no_labels("the observation logit_radii", "the source of images")
        head = shard.head(self.probe)
        head.margins(shard.labels[shard.positions])  # refuses labels that the head does not know
        weights, bias = head.weights.to(shard.x.device).double(), head.bias.to(shard.x.device).double()
        # min (-z_j) = -max z_j: one call bounds every logit from below and from above, [M, 2 C, D]
        rows = torch.cat([weights, -weights]).expand(len(shard.x), -1, -1)
        margin = Margin(rows, torch.cat([bias, -bias]).expand(len(shard.x), -1))
        # [M, C], which logit is that of the image's class
        own = (shard.labels[shard.positions][:, None] == head.classes).to(shard.x.device)
        low = torch.zeros(len(shard.x), dtype=torch.float64, device=shard.x.device)
        high = torch.full_like(low, self.ball.even(image_shape(shard.x)))
        # RVCL, Algorithm 1, CERTIFY: bisection, here with as many halvings for every image
        for _ in range(self.halvings):
            middle = (low + high) / 2
            proved = self._holds(shard, margin, own, middle)
            low, high = torch.where(proved, middle, low), torch.where(proved, high, middle)
        return {"radius": low.cpu()}

    def _holds(self, shard: Shard, margin: Margin, own: Tensor, radii: PerImage) -> Tensor:
        lower = self.certifier(shard.encoder, margin, shard.x, self.ball, radii).lower
        classes = own.shape[1]
        # lb_y against the largest ub_j of the other classes
        own_lower = lower[:, :classes].masked_fill(~own, torch.inf).amin(1)
        return own_lower > (-lower[:, classes:]).masked_fill(own, -torch.inf).amax(1)
