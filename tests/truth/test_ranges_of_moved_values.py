"""Operations that move values or add them up: what the network of bounds computes, its widths and its ranges."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.core import Encoder
from holdfast.numerics.bounds import trace as tracing
from holdfast.numerics.bounds.affine import Affine, Concat, Reshape, Route
from holdfast.numerics.bounds.backward import Region
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.ranges import ranges_inside
from holdfast.numerics.bounds.reader import Reader
from holdfast.numerics.bounds.trace import trace
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import NotCertified

SIZE = (4, 6, 4)
Function = Callable[[Tensor], Tensor]
C = torch.linspace(-1, 1, 4)  # constants of the functions
INDEX = torch.tensor([3, 0, 0, 2])


def in_place(x: Tensor) -> Tensor:
    y = x + 0.01
    y.mul_(2)
    return y + x


MOVES: dict[str, Function] = {
    "slice with a step": lambda x: x[:, 1::2, -3:, :-1],
    "negative index": lambda x: x[:, -1],
    "several indices": lambda x: x[:, INDEX, 1],
    "index by two tensors": lambda x: x[:, INDEX, :, INDEX].transpose(0, 1),
    "index_select": lambda x: x.index_select(2, INDEX),
    "gather": lambda x: x.gather(3, INDEX.expand(1, 4, 6, 4).expand(len(x), -1, -1, -1)),
    "flip": lambda x: x.flip(1, 3),
    "roll": lambda x: x.roll((1, -2), (2, 3)),
    "roll of all": lambda x: x.flatten(1).roll(5, 1),
    "constant before": lambda x: torch.cat([C.view(1, 4, 1, 1).expand(len(x), -1, 6, 4), x], 1),
    "constants around": lambda x: torch.cat([C.expand(len(x), 4, 1, 4), x, x, C.expand(len(x), 4, 2, 4)], 2),
    "stack": lambda x: torch.stack([x, 2 * x, x.flip(1)], 2),
    "stack in front": lambda x: torch.stack([x, x.mean((1, 2, 3), keepdim=True).expand_as(x)]).transpose(0, 1),
    "split": lambda x: torch.cat(x.split([1, 3], 1)[::-1], 1),
    "chunk": lambda x: x.chunk(2, 1)[1] - x.chunk(2, 1)[0],
    "unbind": lambda x: x.unbind(2)[-1],
    "expand": lambda x: x[:, :1].expand(-1, 3, -1, -1),
    "repeat": lambda x: x.repeat(1, 1, 2, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "movedim": lambda x: x.movedim(1, -1),
    "permute": lambda x: x.permute(0, 3, 1, 2),
    "transposed away and back": lambda x: x.flatten(2).transpose(0, 1).flip(0).transpose(1, 0),
    "heads": lambda x: x.flatten(2).view(len(x), 4, 3, 8).permute(2, 0, 1, 3)[1],
    "heads in the batch": lambda x: x.reshape(len(x) * 4, 6, 4).flip(1).view(len(x), 4, 6, 4),
    "windows": lambda x: x.view(-1, 4, 3, 2, 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(-1, 4, 4).flip(1).view(len(x), -1),
    "squeeze of everything": lambda x: x.mean((2, 3), keepdim=True).squeeze(-1).squeeze(-1),
    "unfold": lambda x: x.unfold(2, 3, 2),
    "im2col": lambda x: F.unfold(x, 2, padding=1),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "reflect": lambda x: F.pad(x, (1, 2, 1, 0), mode="reflect"),
    "replicate": lambda x: F.pad(x, (1, 2, 1, 0), mode="replicate"),
    "circular": lambda x: F.pad(x, (1, 2, 1, 0), mode="circular"),
    "pad by a number": lambda x: F.pad(x, (1, -1, 0, 0), value=0.5),
    "tril": lambda x: x.tril(),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest-exact": lambda x: F.interpolate(x, size=(5, 9), mode="nearest-exact"),
    "bilinear": lambda x: F.interpolate(x, size=(9, 5), mode="bilinear"),
    "bilinear at corners": lambda x: F.interpolate(x, size=(9, 3), mode="bilinear", align_corners=True),
    "linear": lambda x: F.interpolate(x.flatten(2), size=31, mode="linear"),
    "avg_pool1d": lambda x: F.avg_pool1d(x.flatten(2), 3, 2, 1),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "avg_pool3d": lambda x: F.avg_pool3d(x.unsqueeze(1), 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x.flatten(2), 5),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (4, 3)),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x.unsqueeze(1), (2, 4, 3)),
    "sum": lambda x: x.sum((1, -1)),
    "mean": lambda x: x.mean(2, keepdim=True),
    "cumsum": lambda x: x.cumsum(3),
    "in place": in_place,
}  # fmt: skip


class Is(nn.Module):
    def __init__(self, function: Function):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def network_of(function: Function) -> Network:
    """Of the function on centred images, behind it a ReLU."""
    module = nn.Sequential(Is(lambda x: function(x - 0.5)), nn.ReLU(), nn.Flatten())
    return trace(Encoder(module, mean=0, std=1), SIZE).double


def images() -> Tensor:
    return 0.4 + 0.2 * torch.rand(2, *SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def matrix_of(affine: Function, value: Tensor) -> Tensor:
    """Return the matrix of an affine function of rows of values like this one, [outer, inner]."""
    units = torch.eye(value.numel(), dtype=value.dtype).view(-1, *value.shape)
    return (affine(units).flatten(1) - affine(torch.zeros_like(value)[None]).flatten(1)).T


def check_operations(network: Network) -> None:
    """Compare widths and adjoints of every affine operation with its matrix."""
    draw = torch.Generator().manual_seed(1)
    for node in network.nodes:
        operation = node.operation
        if not isinstance(operation, Affine):
            continue
        values = [
            torch.rand(2, *network.nodes[i].shape, dtype=torch.float64, generator=draw) - 0.5 for i in node.inputs
        ]
        widths = [value.abs() for value in values]
        forms = torch.randn(3, *node.shape, dtype=torch.float64, generator=draw)
        adjoints = operation.adjoint(forms)
        spread: Tensor | float = 0.0
        for i, value in enumerate(values):

            def part(at: Tensor, i: int = i, values: list[Tensor] = values, operation: Affine = operation) -> Tensor:
                return operation(*(at if j == i else v[:1].expand(len(at), *v.shape[1:]) for j, v in enumerate(values)))

            matrix = matrix_of(part, value[0])
            spread = spread + (widths[i].flatten(1) @ matrix.abs().T).view(2, *node.shape)
            torch.testing.assert_close(adjoints[i].flatten(1), forms.flatten(1) @ matrix, rtol=0, atol=1e-12)
        torch.testing.assert_close(operation.spread(*widths), spread, rtol=0, atol=1e-12)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", MOVES)
def test_values_widths_and_ranges(name: str) -> None:
    check(MOVES[name])


def check(function: Function) -> None:
    """Compare a function's network with the function, and its ranges in both balls with their closed form."""
    network, x = network_of(function), images()
    affine = lambda x: function(x - 0.5).flatten(1)  # noqa: E731
    torch.testing.assert_close(network(x), affine(x).relu(), rtol=0, atol=1e-12)
    check_operations(network)
    matrix = matrix_of(affine, x[0])
    for ball in (Linf(0.03), L2(0.3)):
        region = Region.around(ball, x, torch.full((2,), ball.radius, dtype=torch.float64))
        (box,) = ranges_inside(network, region).values()
        low, high = (end.flatten(1) for end in box)
        reach = ball.radius * (matrix.abs().sum(-1) if isinstance(ball, Linf) else matrix.norm(dim=-1))
        centre = affine(x)
        is_open = centre.abs() < reach
        assert is_open.any()
        torch.testing.assert_close(low[is_open], (centre - reach)[is_open], rtol=0, atol=1e-10)
        torch.testing.assert_close(high[is_open], (centre + reach)[is_open], rtol=0, atol=1e-10)
        assert bool((low <= centre - reach + 1e-10).all())
        assert bool((high >= centre + reach - 1e-10).all())


def turned_over(patch: pytest.MonkeyPatch) -> None:
    before = Reader.route
    patch.setattr(Reader, "route", lambda self, x, function: before(self, x, lambda z: function(z).flip(-1)))
    patch.setattr(tracing, "_compare", lambda *_: None)


PLANTED = {
    "widths keep constants": ("constant before", lambda p: p.setattr(Route, "spread", Route.__call__)),
    "widths are too small": ("mean", lambda p: p.setattr(Route, "spread", lambda self, w: 0.9 * self.function(w))),
    "forms return to the wrong places": (
        "flip",
        lambda p: p.setattr(Route, "adjoint", lambda self, forms: (self.function(forms).roll(1, -1),)),
    ),
    "forms on parts change places": (
        "constants around",
        lambda p: p.setattr(Concat, "adjoint", lambda self, forms: forms.split(self.sizes, self.axis)[::-1]),
    ),
    "shapes turn values over": (
        "transposed away and back",
        lambda p: p.setattr(Reshape, "adjoint", lambda self, forms: (forms.reshape(-1, *self.inner).flip(-1),)),
    ),
    "an operation is read wrongly": ("nearest", turned_over),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, plant = PLANTED[bug]
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check(MOVES[name])


def test_networks_that_mix_images_are_refused_by_the_module_that_does() -> None:
    mixed = nn.Sequential(nn.Conv2d(4, 2, 3), nn.Sequential(nn.ReLU(), Is(lambda x: x - x.mean(0))), nn.Flatten())
    with pytest.raises(NotCertified, match="mixes"):
        trace(Encoder(mixed, mean=0, std=1), SIZE)


def test_changes_in_place_of_parts_are_refused() -> None:
    def part(x: Tensor) -> Tensor:
        y = x + 1
        y[:, 0].relu_()
        return y.flatten(1)

    with pytest.raises(NotCertified, match="relu"):
        trace(Encoder(Is(part), mean=0, std=1), SIZE)
