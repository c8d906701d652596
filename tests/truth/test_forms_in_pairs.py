"""Forms of single values, which share coefficients and come with their opposites, are bounded as dense rows are."""

import pytest
import torch
from torch import Tensor, nn

from holdfast.core import Encoder
from holdfast.numerics.bounds.backward import Region, backward, boxes, standard_relaxations
from holdfast.numerics.bounds.forms import Dense
from holdfast.numerics.bounds.optimise import AlphaBeta, Problem
from holdfast.numerics.bounds.trace import trace
from holdfast.numerics.bounds.units import units
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf


class Block(nn.Module):
    """A residual block: a branch of two convolutions, with or without a shortcut of its own."""

    def __init__(self, activation: nn.Module, shortcut: nn.Module):
        super().__init__()
        self.branch = nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.BatchNorm2d(4), activation, nn.Conv2d(4, 4, 3, 1, 1))
        self.shortcut, self.activation = shortcut, activation

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.branch(x) + self.shortcut(x))


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("activation", "shortcut"),
    [(nn.ReLU(), nn.Identity()), (nn.Sigmoid(), nn.Conv2d(4, 4, 1))],
    ids=["relu", "sigmoid"],
)
@pytest.mark.parametrize("share", [0.2, 0.9])  # single values; all channels of a position
def test_single_values_are_bounded_as_dense_rows_are(activation: nn.Module, shortcut: nn.Module, share: float) -> None:
    torch.manual_seed(0)
    layers = [nn.Conv2d(2, 4, 3, 2, 1), activation, Block(activation, shortcut), nn.Conv2d(4, 3, 3)]
    network = trace(Encoder(nn.Sequential(*layers, nn.Flatten()), mean=0.4, std=0.3), (2, 7, 7)).double
    x = torch.rand(2, 2, 7, 7)
    for ball in (Linf(), L2()):
        region = Region.around(ball, x, torch.tensor([0.05, 0.2]).double())
        ranges = boxes(network, region)
        relaxations = standard_relaxations(network, ranges)
        for node in (i for i, n in enumerate(network.nodes) if len(n.shape) == 3 and n.inputs):
            shape = network.nodes[node].shape
            for form, index in units(shape, torch.rand(shape) < share, region.x, 40):
                rows = torch.zeros(len(index[0]), *shape, dtype=torch.float64)
                rows[(torch.arange(len(rows)), *index)] = 1
                dense = Dense(torch.stack([rows, -rows], 1).flatten(0, 1)[None])
                expected = backward(network, node, dense, region, ranges, relaxations)
                torch.testing.assert_close(backward(network, node, form, region, ranges, relaxations), expected)
                # the usual α of each row give the same
                problem = Problem(network, node, form, region, ranges, relaxations)
                torch.testing.assert_close(problem.bound(AlphaBeta()), expected)
