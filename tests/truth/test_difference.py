"""The difference of two builds of a network: what is proved holds for every image, and is tight where it can be."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from random_networks import random_encoder
from torch import Tensor, nn

from holdfast.core import Certifier, Encoder, Margin
from holdfast.numerics.bounds.affine import Add, Scale
from holdfast.numerics.bounds.backward import Region, boxes
from holdfast.numerics.bounds.clip import Clip
from holdfast.numerics.bounds.clipped import join_clips
from holdfast.numerics.bounds.difference import Apart
from holdfast.numerics.bounds.effort import Limit
from holdfast.numerics.bounds.network import Network, Node
from holdfast.numerics.bounds.ranges import ranges_inside
from holdfast.numerics.bounds.trace import trace
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.crown_ibp import CrownIbp
from holdfast.parts.certifiers.interval import Interval
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import NotCertified
from levels import Levels, round_weights

SHAPE = (3, 8, 8)


class Plus(nn.Module):
    """x + block(x)."""

    def __init__(self, block: nn.Module):
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x)


def conv(channels: int = 4, **options: Any) -> nn.Conv2d:
    return nn.Conv2d(channels, 4, 3, **options)


NETWORKS: dict[str, Callable[[], list[nn.Module]]] = {
    "affine": lambda: [conv(3), nn.Flatten(), nn.Linear(144, 5)],
    "ReLU": lambda: [conv(3), nn.ReLU(), conv(stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(16, 5)],
    "ReLU6": lambda: [conv(3), nn.ReLU6(), conv(groups=4), nn.Hardtanh(), nn.Flatten(), nn.Linear(64, 5)],
    "residual": lambda: [
        conv(3),
        nn.ReLU(),
        Plus(nn.Sequential(conv(padding=1), nn.BatchNorm2d(4), nn.LeakyReLU(0.1), conv(padding=1))),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 5),
    ],
    "max pooling": lambda: [conv(3), nn.MaxPool2d(3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(36, 5)],
    "PReLU": lambda: [conv(3), nn.PReLU(4), conv(), nn.Flatten(), nn.Linear(64, 5)],
    "curved": lambda: [conv(3), nn.GELU(), conv(), nn.Hardswish(), nn.Flatten(), nn.Linear(64, 5), nn.Tanh()],
}


def encoder_of(layers: list[nn.Module]) -> Encoder:
    return Encoder(nn.Sequential(*layers).eval(), mean=0.4, std=0.3)


def original(name: str) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return encoder_of(NETWORKS[name]())


def with_levels() -> Encoder:
    """The network "ReLU" as runtimes deploy it: pixels, weights and activations are integers, whose limits clip."""
    encoder = round_weights(original("ReLU"))
    first, _, second, _, flat, last = encoder.module.children()
    return encoder_of([Levels(0.0235, -3), first, Levels(0.01), second, Levels(0.006), flat, last, Levels(0.008, 0)])


def pairs() -> Iterator[tuple[str, Encoder, Encoder]]:
    for name in NETWORKS:
        yield name, original(name), round_weights(original(name))
    yield "levels", original("ReLU"), with_levels()
    yield "levels first", with_levels(), original("ReLU")
    other = with_levels()
    for module in other.modules():
        if isinstance(module, Levels):
            module.scale *= 1.5
    yield "levels of two builds", with_levels(), other


PAIRS = {name: (old, new) for name, old, new in pairs()}


def apart(old: Encoder, new: Encoder, shape: tuple[int, int, int] = SHAPE) -> Apart:
    return Apart(trace(old, shape), trace(new, shape))


def image(shape: tuple[int, ...] = SHAPE) -> Tensor:
    return torch.rand(1, *shape, generator=torch.Generator().manual_seed(1))


def region(radius: float, ball: Linf | L2 | None = None, x: Tensor | None = None) -> Region:
    return Region.around(ball or Linf(), image() if x is None else x, torch.tensor([radius]).double())


def within(where: Region, count: int = 600) -> Tensor:
    """Images of a region: its corners, its inside, and the image itself."""
    rng, x, radius = torch.Generator().manual_seed(2), where.x, float(where.radii)
    step = 2 * torch.rand(count, *x.shape[1:], generator=rng).double() - 1
    step[::2] = step[::2].sign()
    step[-1] = 0
    if not where.ball.is_box:
        step /= step.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None, None]
    return (x + radius * step).clamp(0, 1)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("radius", [0.0, 1 / 255, 0.05])
def test_no_image_beats_what_is_proved(name: str, radius: float) -> None:
    old, new = PAIRS[name]
    both, where = apart(old, new), region(radius)
    low, high = both.box(where)
    x = within(where)
    first, second = both.first(x), both.second(x)
    difference = first - second
    assert bool(((difference >= low) & (difference <= high)).all())
    assert float(both.least_cosine(where)) <= float(torch.cosine_similarity(first, second).min())
    # What was joined and bounded is what the encoders compute
    with torch.no_grad():
        assert torch.allclose(first.float(), old(x.float()), atol=2e-2 if "levels" in name else 1e-5)
    # Never looser than each by itself
    (a, b) = (boxes(net, where, ranges_inside(net, where))[len(net.nodes) - 1] for net in (both.first, both.second))
    assert bool(((low >= a[0] - b[1] - 1e-6) & (high <= a[1] - b[0] + 1e-6)).all())


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 60))])
def test_nor_of_networks_drawn_at_random(seed: int) -> None:
    encoder, shape = random_encoder(seed)
    both, where = (
        apart(encoder, round_weights(encoder, 5), shape),
        region(0.03, L2() if seed % 3 == 0 else None, image(shape)),
    )
    low, high = both.box(where)
    x = within(where)
    difference = both.first(x) - both.second(x)
    assert bool(((difference >= low) & (difference <= high)).all())


def test_of_affine_networks_the_difference_is_exact() -> None:
    both, where = apart(*PAIRS["affine"]), region(0.05)
    low, high = both.box(where)
    x = where.x.clone().requires_grad_()
    for number in range(5):
        difference = (both.first(x) - both.second(x))[0, number]
        (slope,) = torch.autograd.grad(difference, x)
        ends = [torch.where((slope > 0) == up, where.box[1], where.box[0]) for up in (False, True)]
        least, most = ((both.first(end) - both.second(end))[0, number] for end in ends)
        assert float(low[0, number]) == pytest.approx(float(least), abs=1e-8)
        assert float(high[0, number]) == pytest.approx(float(most), abs=1e-8)


@pytest.mark.parametrize("name", ["ReLU", "levels"])
def test_at_the_image_itself_the_difference_is_its_own(name: str) -> None:
    both, where = apart(*PAIRS[name]), region(0.0)
    low, high = both.box(where)
    assert torch.allclose(high - low, torch.zeros_like(low), atol=1e-8)
    cosine = torch.cosine_similarity(both.first(where.x), both.second(where.x))
    # An angle of asin(δ / m) at most, which loses what of the difference is along the vectors
    assert float(cosine) - 2e-4 <= float(both.least_cosine(where)) <= float(cosine)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_network_twice_has_no_difference(name: str) -> None:
    low, high = apart(original(name), original(name)).box(region(0.05))
    assert float((high - low).abs().max()) < 1e-7


@pytest.mark.parametrize(
    ("name", "times"), [("ReLU", 20), ("ReLU6", 20), ("residual", 10), ("max pooling", 2), ("curved", 10)]
)
def test_step_by_step_is_many_times_tighter_than_each_by_itself(name: str, times: float) -> None:
    both, where = apart(*PAIRS[name]), region(1 / 255)
    low, high = both.box(where)
    (a, b) = (boxes(net, where, ranges_inside(net, where))[len(net.nodes) - 1] for net in (both.first, both.second))
    assert float((high - low).mean()) * times < float(((a[1] - b[0]) - (a[0] - b[1])).mean())


def test_maxima_of_different_inputs_are_apart_by_what_they_are() -> None:
    def largest(sign: float) -> Encoder:
        point = nn.Conv2d(1, 1, 1, bias=False)
        nn.init.constant_(point.weight, sign)
        return Encoder(nn.Sequential(point, nn.MaxPool2d(2), nn.Flatten()), mean=0, std=1)

    x = torch.tensor([[[[0.9, 0.1], [0.5, 0.5]]]])
    low, high = apart(largest(1.0), largest(-1.0), (1, 2, 2)).box(region(0.01, x=x))
    # .9 by one input, less -.1 by another
    assert float(low) == pytest.approx(0.98, abs=1e-6)
    assert float(high) == pytest.approx(1.02, abs=1e-6)


class Of(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@pytest.mark.parametrize("function", [torch.reciprocal, torch.sqrt, torch.log, torch.rsqrt])
def test_where_a_function_is_not_defined_nothing_is_proved(function: Callable[[Tensor], Tensor]) -> None:
    """The sums of pixels cross 0, where the function has a pole, or its domain ends; what follows is bounded again."""

    def network(factor: float) -> Encoder:
        sums, last = nn.Linear(4, 2), nn.Linear(2, 3)
        with torch.no_grad():
            sums.weight.copy_(torch.full((2, 4), factor))
            sums.bias.copy_(torch.tensor([-1.99, -1.9]))
            last.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]))
        return Encoder(nn.Sequential(nn.Flatten(), sums, Of(function), nn.Hardtanh(), last), mean=0, std=1)

    where = region(0.05, x=torch.full((1, 1, 2, 2), 0.5))
    both = apart(network(1.0), network(1.02), (1, 2, 2))
    low, high = both.box(where)
    x = within(where)
    difference = both.first(x) - both.second(x)
    known = difference.isfinite()
    assert bool(((difference >= low) & (difference <= high))[known].all())
    assert float(difference[known].abs().max()) > 0.01
    assert float(both.least_cosine(where)) <= float(
        torch.cosine_similarity(both.first(x), both.second(x)).nan_to_num(1).min()
    )


def test_beyond_the_limit_of_work_intervals_stand_in_and_hold() -> None:
    both, where = apart(*PAIRS["residual"]), region(0.02)
    low, high = both.box(where, Limit(1e-9, "intervals"))
    x = within(where)
    difference = both.first(x) - both.second(x)
    assert bool(((difference >= low) & (difference <= high)).all())
    tight = both.box(where)
    assert float((high - low).mean()) > float((tight[1] - tight[0]).mean())
    with pytest.raises(NotCertified) as error:
        both.box(where, Limit(1e-9))
    assert "would be bounded first" in str(error.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (lambda: original("ReLU"), lambda: original("max pooling")),
        (lambda: original("affine"), lambda: original("curved")),
        (lambda: encoder_of([conv(3), nn.Flatten()]), lambda: encoder_of([conv(3, dilation=2), nn.Flatten()])),
        (
            lambda: encoder_of([conv(3, padding=1), nn.Flatten()]),
            lambda: encoder_of([conv(3, padding=2, dilation=2), nn.Flatten()]),
        ),
        (lambda: encoder_of([nn.Flatten(), nn.GELU()]), lambda: encoder_of([nn.Flatten(), nn.SiLU()])),
    ],
)
def test_networks_that_are_not_in_step_are_refused_in_words(
    old: Callable[[], Encoder], new: Callable[[], Encoder]
) -> None:
    with pytest.raises(NotCertified) as error:
        apart(old(), new())
    assert "expected two builds of one network" in str(error.value)
    assert "in the one where the other has" in str(error.value)


# --- clips ---

CLIPS = (Clip(0.0), Clip(-1.0, 2.0), Clip(step=0.3), Clip(-0.9, 1.2, 0.3), Clip(0.0, 0.6, 0.3))
ENDS = torch.linspace(-3, 3, 25, dtype=torch.float64)


@pytest.mark.parametrize("clip", CLIPS)
def test_lines_slopes_and_ranges_hold_a_clip(clip: Clip) -> None:
    low, high = (ends.flatten() for ends in torch.meshgrid(ENDS, ENDS, indexing="ij"))
    low, high = low[low <= high], high[low <= high]
    places = low + torch.linspace(0, 1, 101, dtype=torch.float64)[:, None] * (high - low)
    values, lines, (least, most) = clip(places), clip.relax((low, high)), clip.box((low, high))
    below = lines.below_slope * places + (0.0 if lines.below is None else lines.below)
    assert bool((below <= values + 1e-12).all())
    assert bool((lines.above_slope * places + lines.above >= values - 1e-12).all())
    assert bool(((least <= values) & (values <= most)).all())
    slowest, fastest = clip.slopes((low, high))
    rise, run = clip.smooth(places[1:]) - clip.smooth(places[:-1]), places[1:] - places[:-1]
    assert bool(((slowest * run <= rise + 1e-12) & (rise <= fastest * run + 1e-12)).all())


@pytest.mark.parametrize("outer", CLIPS)
@pytest.mark.parametrize("inner", CLIPS)
def test_two_clips_are_one(outer: Clip, inner: Clip) -> None:
    z = torch.linspace(-3, 3, 1213, dtype=torch.float64)
    both = outer.after(inner)
    assert both is not None
    assert torch.allclose(outer(inner(z)), both(z))


def test_ways_of_rounding_that_differ_stay_apart() -> None:
    assert Clip(step=0.3).after(Clip(step=0.2)) is None
    # Levels that would not be multiples of the step any more
    assert Clip(step=1.0).rescale(0.5, 0.2) is None
    assert Clip(step=1.0).rescale(-1.0, 0.0) is None


@pytest.mark.parametrize("name", PAIRS)
def test_joined_clips_compute_the_same(name: str) -> None:
    network = trace(PAIRS[name][1], SHAPE)
    joined = join_clips(network)
    x = within(region(0.3))
    assert torch.allclose(joined(x), network(x), atol=1e-9)
    assert len(joined.nodes) <= len(network.nodes)


def test_levels_are_one_function_of_real_numbers() -> None:
    clips = [
        node.operation for node in join_clips(trace(with_levels(), SHAPE)).nodes if isinstance(node.operation, Clip)
    ]
    assert [clip.step for clip in clips] == [0.0235, 0.01, 0.006, 0.008]
    assert clips[1].low == 0.0
    assert clips[1].high == pytest.approx(2.55)


def test_a_clip_whose_levels_two_read_keeps_their_factors() -> None:
    one = torch.ones(1, dtype=torch.float64)
    nodes = (
        Node(None, (), (1,), "x"),
        Node(Clip(-4.0, 4.0, 1.0), (0,), (1,), "levels"),
        Node(Scale(2 * one, None), (1,), (1,), "twice"),
        Node(Scale(3 * one, None), (1,), (1,), "three times"),
        Node(Add(), (2, 3), (1,), "sum"),
    )
    joined = join_clips(Network(nodes)).nodes
    assert [(node.operation, node.inputs) for node in joined] == [(node.operation, node.inputs) for node in nodes]


@pytest.mark.parametrize("certifier", [Crown(), CrownIbp(), Interval(), AlphaCrown(steps=3)])
def test_a_network_that_rounds_is_certified_by_itself(certifier: Certifier) -> None:
    encoder, where = with_levels(), region(1 / 255)
    rows = torch.randn(1, 4, 5, generator=torch.Generator().manual_seed(3))
    margin = Margin(rows, torch.zeros(1, 4))
    bound = certifier(encoder, margin, image(), Linf(1 / 255))
    found = margin.to(torch.float64)(trace(encoder, SHAPE)(within(where))).amin(0)
    assert bool((bound.lower[0] <= found).all())
    assert not bound.vacuous.any()
