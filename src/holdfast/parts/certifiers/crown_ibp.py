"""CROWN-IBP: ranges inside the network by interval arithmetic, the margin by linear relaxation."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from holdfast.core import Margin
from holdfast.numerics.bounds.activations import Box
from holdfast.numerics.bounds.backward import Region, boxes, standard_relaxations
from holdfast.numerics.bounds.network import Network
from holdfast.parts.certifiers.shared.certifier import Propagation, not_below_intervals, propagate_backward


@dataclass(frozen=True)
class CrownIbp(Propagation):
    """One backward pass of the margin between lines that interval arithmetic gives; see `Crown`.

    The last step is also taken by interval arithmetic. As fast as a few forward passes, for any depth; used for
    training.

    Source: Zhang et al. (2020).

    Example:
        >>> from holdfast.core import Encoder
        >>> from holdfast.parts.threats.linf import Linf
        >>> x, row = torch.full((1, 1, 1, 2), 0.5), Margin(torch.tensor([[[1.0, 1.0]]]), torch.zeros(1, 1))
        >>> bound = CrownIbp()(Encoder(torch.nn.Flatten(), mean=0, std=1), row, x, Linf(0.1))
        >>> round(bound.lower.item(), 4)  # of the sum of two pixels
        0.8
    """

    differentiable = True

    def lower(
        self, network: Network, margin: Margin, region: Region, held: Mapping[int, Box] | None = None
    ) -> tuple[Tensor, dict[int, Box]]:
        """Return lower bounds and ranges."""
        # One pass forwards, where CROWN makes a pass back for every layer
        ranges = boxes(network, region, held)
        relaxations = standard_relaxations(network, ranges)
        return not_below_intervals(
            propagate_backward(network, margin, region, ranges, relaxations), network, margin, region, ranges
        ), ranges
