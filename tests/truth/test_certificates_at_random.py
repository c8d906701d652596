"""A hundred thousand bounds of random networks of every operation that is read, against attacks in float64.

A bound is a lower bound of one margin, or one end of the range of one value inside a network.
"""

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest
import torch
from certified_problems import budgeted
from random_blocks import Excitation
from random_networks import DIM, random_encoder
from torch import Tensor, nn

from holdfast.core import Certifier, Encoder, Images, Margin
from holdfast.numerics.bounds.backward import backward, boxes, standard_relaxations
from holdfast.numerics.bounds.ranges import ranges_inside
from holdfast.numerics.bounds.smooth import Smooth
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import prepare, start
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf

TOLERANCE = 1e-12
"""Share of the size of the values: what an attack's own float64 may be wrong by."""

ROWS = 40
RADII = (0.003, 0.03, 0.1, 0.3)
STEPS = 12

CERTIFIERS: dict[str, Certifier] = {
    "interval": budgeted("interval"), "crown_ibp": budgeted("crown_ibp"), "crown": budgeted("crown"),
    "plain crown": Crown(intervals=False), "alpha_crown": budgeted("alpha_crown"),
    "plain alpha": AlphaCrown(inside=2, steps=3, intervals=False),
}  # fmt: skip


@dataclass
class Count:
    """How many bounds were compared, how many of them said something, and those that an image beats."""

    bounds: int = 0
    finite: int = 0
    violations: list[str] = field(default_factory=list)

    def compare(self, what: str, lower: Tensor, reached: Tensor, size: Tensor) -> None:
        """Compare lower bounds with what images reach, of values of some size."""
        over = (lower - reached) / size.clamp_min(1)
        self.bounds += lower.numel()
        self.finite += int(lower.isfinite().sum())
        if bool((over > TOLERANCE).any()):
            self.violations.append(f"{what}: {int((over > TOLERANCE).sum())}, by up to {float(over.max()):.3g}")


@dataclass(frozen=True, eq=False)
class Fuzz:
    """A random network, images with a ball each, and rows of margins."""

    seed: int
    encoder: Encoder
    x: Images
    margin: Margin
    ball: Linf | L2
    radii: Tensor

    @classmethod
    def both(cls, seed: int) -> Iterator["Fuzz"]:
        """Yield the boxes and the ℓ2 balls of a seed."""
        encoder, shape = random_encoder(seed, products=True)
        draw = torch.Generator().manual_seed(seed)
        x = (torch.rand(len(RADII), *shape, generator=draw) * 1.4 - 0.2).clamp(0, 1)
        weights = torch.randn(len(RADII), ROWS, DIM, generator=draw).double()
        margin = Margin(weights, torch.randn(len(RADII), ROWS, generator=draw).double())
        for ball, factor in ((Linf(1.0), 1.0), (L2(1.0), 3.0)):
            yield cls(seed, encoder, x, margin, ball, factor * torch.tensor(RADII).double())

    def attacked(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the least margins of any image found, the size of its values, [B, R] each, and images [B, n, ...].

        From the centre, from random images, and from the worst corner of CROWN's own bound, each with ascent.
        """
        double = copy.deepcopy(self.encoder).double()
        x = self.x.double().repeat_interleave(ROWS, 0)
        radii = self.radii.repeat_interleave(ROWS).view(-1, 1, 1, 1)
        weights, bias = self.margin.weights.flatten(0, 1), self.margin.bias.flatten()

        def margins(at: Tensor) -> tuple[Tensor, Tensor]:
            reps = double(at)
            return (weights * reps).sum(1) + bias, (weights * reps).abs().sum(1) + bias.abs()

        def moved(direction: Tensor) -> Tensor:
            """The image farthest along a direction."""
            if isinstance(self.ball, Linf):
                return (x + radii * direction.sign()).clamp(0, 1)
            length = direction.flatten(1).norm(dim=1).clamp_min(1e-300).view(-1, 1, 1, 1)
            return (x + radii * direction / length).clamp(0, 1)

        random = torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(self.seed))
        begins = [x, moved(random), moved(-self.worst_direction())]
        least, size = margins(x)
        kept = x.clone()
        for at in begins:
            for step in range(STEPS + 1):
                image = at.detach().requires_grad_()
                value, terms = margins(image)
                better = value < least
                least, size = torch.where(better, value, least).detach(), torch.where(better, terms, size).detach()
                kept = torch.where(better.view(-1, 1, 1, 1), image.detach(), kept)
                gradient = torch.nan_to_num(torch.autograd.grad(value.sum(), image)[0])
                # conditional gradient: towards the farthest image down the slope, ever less far
                at = image.detach() + 2 / (2 + step) * (moved(-gradient) - image.detach())
        shape = self.margin.bias.shape
        return least.view(shape), size.view(shape), kept.unflatten(0, shape)

    def worst_direction(self) -> Tensor:
        """Return the coefficients on the image that CROWN's bound ends with, [B · R, C, H, W]."""
        network, region, margin = prepare(self.encoder, self.margin, self.x, self.ball, self.radii)
        network, trail = network.double, {}
        with torch.no_grad():
            ranges = boxes(network, region)
            relaxations = standard_relaxations(network, ranges)
            backward(network, *start(network, margin), region, ranges, relaxations, trail=trail)
        return torch.nan_to_num(trail[0]).flatten(0, 1)

    def check(self, count: Count) -> None:
        """Compare the bounds of all certifiers, and the ranges inside the network, with images."""
        reached, size, images = self.attacked()
        where = f"network {self.seed}, {type(self.ball).__name__}"
        for name, certifier in CERTIFIERS.items():
            lower = certifier(self.encoder, self.margin, self.x, self.ball, self.radii).lower
            count.compare(f"{name}, {where}", lower, reached, size)
        self.check_ranges(count, images, where)

    def check_ranges(self, count: Count, images: Tensor, where: str) -> None:
        network, region, _ = prepare(self.encoder, self.margin, self.x, self.ball, self.radii)
        network = network.double
        with torch.no_grad():
            values = [images.flatten(0, 1)]
            for node in network.nodes[1:]:
                assert node.operation is not None
                values.append(node.operation(*(values[i] for i in node.inputs)))
            for kind, ranges in (("intervals", boxes(network, region)), ("ranges", ranges_inside(network, region))):
                for index, (low, high) in ranges.items():
                    value = values[index].unflatten(0, images.shape[:2])
                    size = value.abs().amax(1)
                    count.compare(f"{kind} of {index}, {where}", low, value.amin(1), size)
                    count.compare(f"{kind} of {index}, {where}", -high, -value.amax(1), size)


def fuzz(seeds: Iterable[int]) -> Count:
    """Compare all bounds of some seeds; a network that is refused is none."""
    count = Count()
    for seed in seeds:
        for problem in Fuzz.both(seed):
            problem.check(count)
    return count


def test_no_image_beats_a_bound_of_a_random_network() -> None:
    count = fuzz((2,))
    assert not count.violations
    assert count.bounds > 2 * len(CERTIFIERS) * len(RADII) * ROWS
    assert count.finite > 0.9 * count.bounds


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "layers",
    [
        (nn.Conv2d(1, 2, 3, padding=1), nn.GELU(), nn.Conv2d(2, 2, 3, padding=1), nn.ReLU()),
        (Excitation(1), nn.ReLU()),
    ],
    ids=["windows behind a curve", "a gate that is a single number"],
)
def test_shapes_that_few_networks_have(layers: tuple[nn.Module, ...]) -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(len(RADII), 1, 5, 5, generator=draw)
    network = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(DIM)).eval()
    network(x)  # which tells the last layer its width
    encoder = Encoder(network, mean=0.5, std=0.5)
    weights = torch.randn(len(RADII), ROWS, DIM, generator=draw).double()
    margin = Margin(weights, torch.zeros(len(RADII), ROWS).double())
    count = Count()
    Fuzz(0, encoder, x, margin, Linf(1.0), torch.tensor(RADII).double()).check(count)
    assert not count.violations
    assert count.finite == count.bounds


@pytest.mark.slow
def test_a_line_that_is_slightly_too_high_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a hundred-thousandth of the slope at its point of tangency."""
    monkeypatch.setattr(Smooth, "_room", lambda self, value, slope, size: -1e-5 * slope.abs() * size)
    assert any(fuzz([seed]).violations for seed in (1, 2))


@pytest.mark.slow(minutes=20)
def test_no_image_beats_a_hundred_thousand_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    count = fuzz(range(30))
    with capsys.disabled():
        print(f"\n{count.bounds:,} bounds, {count.finite:,} of them numbers; beaten: {count.violations}")
    assert not count.violations
    assert count.bounds >= 100_000
