"""CROWN: every activation between two lines, linear functions propagated back to the pixels."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.core import Margin
from holdfast.numerics.bounds.curved import Box
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.propagate import Region, backward, standard_lines
from holdfast.numerics.bounds.ranges import ranges_inside
from holdfast.parts.certifiers.shared.certifier import Propagation, start


@dataclass(frozen=True)
class Crown(Propagation):
    """min m(x') >= min_{x' in ball} c · x' + c₀, with c from Λ⁺ (line below) + Λ⁻ (line above) at each activation.

    The ranges that decide the lines come from CROWN itself, layer by layer, and from interval arithmetic where that
    is better. All rows of a margin share them. The last step, too, is also taken by interval arithmetic.

    Source: Zhang et al. (2018), "Efficient neural network robustness certification with general activation
    functions", Theorem 3.2; RVCL, Lemma 25.
    """

    @torch.no_grad()
    def lower(
        self, network: Network, margin: Margin, region: Region, known: Mapping[int, Box] | None = None
    ) -> tuple[Tensor, dict[int, Box]]:
        """Return lower bounds and ranges."""
        ranges = ranges_inside(network, region, known)
        lines = standard_lines(network, ranges)
        row = (network, *start(network, margin), region, ranges)
        relaxed, plain = backward(*row, lines), backward(*row, {}, stop=True)
        return torch.maximum(relaxed, plain) + margin.bias, ranges
