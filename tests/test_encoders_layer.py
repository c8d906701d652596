import pytest
import torch
from torch import nn

from holdfast.runtime.errors import UnknownName, Unsupported
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.layer import Tap


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.runs = 0

    def forward(self, x):
        self.runs += 1
        return x


class Keywords(nn.Module):
    """Calls a layer by keyword, catches Exception on the way, returns a tuple, owns a layer it never runs."""

    def __init__(self):
        super().__init__()
        self.inner, self.split, self.unused = nn.Flatten(), nn.Identity(), nn.Linear(1, 1)

    def forward(self, x):
        try:
            return (self.split(self.inner(input=x)), x)
        except Exception:
            return x


def network():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), Counting(), nn.Flatten(), nn.Linear(4 * 36, 7))


def test_output_of_a_layer_and_its_input():
    net, x = network().eval(), torch.rand(2, 3, 8, 8)
    conv = net[0](x)
    torch.testing.assert_close(Tap(net, "0", "avg")(x), conv.mean((2, 3)))
    torch.testing.assert_close(Tap(network_copy(net), "4.input")(x), conv.relu().flatten(1))
    torch.testing.assert_close(Tap(network_copy(net), "1", "flatten")(x), conv.relu().flatten(1))
    torch.testing.assert_close(Tap(network_copy(net))(x), network_copy(net)(x))


def network_copy(net):
    fresh = network().eval()
    fresh.load_state_dict(net.state_dict())
    return fresh


def test_later_layers_are_not_run_and_gradients_remain():
    net = network().eval()
    tap, x = Tap(net, "0", "avg"), torch.rand(2, 3, 8, 8, requires_grad=True)
    tap(x).sum().backward()
    assert net[2].runs == 0
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


def test_tokens():
    class Tokens(nn.Module):
        def forward(self, x):
            return x.flatten(2).transpose(1, 2)

    x = torch.rand(2, 3, 4, 4)
    tokens = x.flatten(2).transpose(1, 2)
    torch.testing.assert_close(Tap(Tokens(), pool="cls")(x), tokens[:, 0])
    torch.testing.assert_close(Tap(Tokens(), pool="mean")(x), tokens.mean(1))
    with pytest.raises(Unsupported, match=r"\[2, 16, 3\]"):
        Tap(Tokens())(x)


def test_networks_that_are_difficult():
    x = torch.rand(2, 3, 8, 8)
    torch.testing.assert_close(Tap(Keywords(), "inner.input", "avg")(x), x.mean((2, 3)))
    with pytest.raises(Unsupported, match="unused"):
        Tap(Keywords(), "unused")(x)
    with pytest.raises(Unsupported, match="tuple"):
        Tap(Keywords())(x)


def test_names_that_are_not_known():
    with pytest.raises(UnknownName, match="'9'"):
        Tap(network(), "9")
    with pytest.raises(UnknownName, match=r"'flatten'\?"):
        Tap(network(), "0", "flaten")


def test_layers_of_a_spec():
    full = open_encoder("zoo:resnet18_32?seed=1")
    part = open_encoder("zoo:resnet18_32?seed=1&layer=layer4&pool=avg")
    x = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(part(x), full(x))
    assert (part.origin["layer"], part.origin["pool"]) == ("layer4", "avg")
    many = r"unknown layer 'layer4.1.con1'; did you mean 'layer4.1.conv1'\? some of \d+:"
    with pytest.raises(UnknownName, match=many):
        open_encoder("zoo:resnet18_32?layer=layer4.1.con1")
    with pytest.raises(Unsupported, match="layer4"):
        open_encoder("zoo:resnet18_32?layer=layer4")
    with pytest.raises(Unsupported, match="pool=cls"):
        open_encoder("zoo:resnet18_32?layer=layer4&pool=cls")
