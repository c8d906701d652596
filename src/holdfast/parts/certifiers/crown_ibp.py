"""CROWN-IBP: ranges inside the network by interval arithmetic, the margin by linear relaxation."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.core import Margin
from holdfast.numerics.bounds.curved import Box
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.propagate import Region, backward, boxes, standard_lines
from holdfast.parts.certifiers.shared.certifier import Propagation, start


@dataclass(frozen=True)
class CrownIbp(Propagation):
    """One backward pass of the margin between lines that interval arithmetic gives; see `Crown`.

    As fast as a few forward passes, for any depth; used for training.

    Source: Zhang et al. (2020), "Towards stable and efficient training of verifiably robust neural networks".
    """

    @torch.no_grad()
    def lower(
        self, network: Network, margin: Margin, region: Region, known: Mapping[int, Box] | None = None
    ) -> tuple[Tensor, dict[int, Box]]:
        """Return lower bounds and ranges."""
        ranges = boxes(network, region, known)
        lines = standard_lines(network, ranges)
        return backward(network, *start(network, margin), region, ranges, lines) + margin.bias, ranges
