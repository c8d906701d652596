"""Representations taken inside a network are certified, whatever comes behind the layer."""

import pytest
import torch
from torch import nn

from holdfast.core import Encoder, Margin
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders.shared.layer import Tap


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 3, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(12, 5), nn.ReLU(inplace=True)
    return nn.Sequential(*layers, nn.Linear(5, 2), nn.Softmax(-1), nn.Dropout())


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("layer", "end"), [("3", 4), ("5.input", 5), ("6", 7)])
def test_bounds_are_those_of_the_network_that_ends_there(layer: str, end: int) -> None:
    """In front of an activation that works in place, behind it, and behind a softmax."""
    torch.manual_seed(1)
    x, ball = torch.rand(2, 1, 4, 4), Linf(0.02)
    inside, alone = Encoder(Tap(network(), layer), mean=0, std=1), Encoder(network()[:end], mean=0, std=1)
    dim = alone(x).shape[1]
    margin = Margin(torch.randn(2, 3, dim).double(), torch.zeros(2, 3).double())
    assert torch.equal(inside(x), alone(x))
    tapped, ended = (Crown()(encoder, margin, x, ball).lower for encoder in (inside, alone))
    assert torch.isfinite(tapped).all()
    torch.testing.assert_close(tapped, ended, rtol=0, atol=1e-12)
