"""Margins of tiny networks together with what is known about their minima, for the truth tests of certifiers."""

import copy
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from exact import Program
from tiny_networks import OTHER_PIECEWISE_LINEAR, RELU_NETWORKS, SHAPES, SMOOTH, images, make, rows
from torch import Tensor

from holdfast.core import Bound, Certifier, Encoder, Images, Margin, Rng, registry
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf

RADII = {
    "linf": ((0.001, 0.05, 0.15, 0.4), (0.01, 0.1, 0.25, 1.0)),
    "l2": ((0.003, 0.1, 0.3, 1.0), (0.03, 0.2, 0.6, 3.0)),
}
"""In pixels, from tiny to vacuous: one family for even seeds, one for odd ones."""

COPIES = {"linf": 2, "l2": 1}
"""Images for each radius; programs over ℓ2 balls take longer."""

BALLS: dict[str, Linf | L2] = {"linf": Linf(1.0), "l2": L2(1.0)}
BUILDERS = RELU_NETWORKS | OTHER_PIECEWISE_LINEAR | SMOOTH
ROWS = 3


BUDGETS = {
    "alpha_crown": {"inside": 3, "steps": 8},
    "beta_crown": {"splits": 6, "until": "tight", "inside": 2, "steps": 5, "leaf_steps": 3},
}
"""Small ones: a bound is valid after any effort."""


def budgeted(name: str) -> Certifier:
    """Return a certifier with a small budget."""
    return registry.find("certifiers", name)(**BUDGETS.get(name, {}))


@dataclass(frozen=True, eq=False)
class Setting:
    """Some images of a tiny network, with two or three random margins and a radius each."""

    encoder: Encoder
    margin: Margin
    x: Images
    ball: Linf | L2
    radii: Tensor

    @classmethod
    def draw(cls, name: str, norm: str, seed: int, few: bool = False) -> "Setting":
        """Draw a setting; a few are one image for each radius, with two margins."""
        radii = torch.tensor(RADII[norm][seed % 2]).repeat_interleave(1 if few else COPIES[norm])
        margin = Margin(*rows(len(radii), 2 if few else ROWS, 3, seed=seed + 100))
        x = images(len(radii), SHAPES[name], seed=seed)
        return cls(_encoder(name, seed), margin, x, BALLS[norm], radii)

    def certified(self, certifier: Certifier) -> Bound:
        return certifier(self.encoder, self.margin, self.x, self.ball, self.radii)

    @property
    def scale(self) -> Tensor:
        """How large the numbers are of which a margin is the sum, at least 1, [B, R]."""
        with torch.no_grad():
            size = (self.margin.weights * self.encoder(self.x)[:, None]).norm(dim=2) + self.margin.bias.abs()
        return size.double().clamp_min(1)

    def margins(self, x: Images) -> Tensor:
        """Return every row of the margins of changed images [B, R, C, H, W] in float64, [B, R]."""
        with torch.no_grad():
            reps = copy.deepcopy(self.encoder).double()(x.double().flatten(0, 1)).unflatten(0, x.shape[:2])
        return (self.margin.weights.double() * reps).sum(2) + self.margin.bias.double()

    def attacked(self, steps: int = 20) -> Tensor:
        """Return the smallest margins that an attack on every row of every image finds, [B, R]."""
        count = self.margin.bias.shape[1]
        found = torch.empty(len(self.x), count, *self.x.shape[1:])
        for radius in self.radii.unique():
            some = self.radii == radius
            weights, bias = self.margin.weights[some].flatten(0, 1), self.margin.bias[some].flatten()

            def goal(x: Tensor, weights: Tensor = weights, bias: Tensor = bias) -> tuple[Tensor, Tensor]:
                reps = self.encoder(x)
                return -((weights * reps).sum(1) + bias), reps

            x = self.x[some].repeat_interleave(count, 0)
            rng = Rng(0, ids=tuple(str(i) for i in range(len(x))))
            moved = Apgd(steps)(goal, x, replace(self.ball, radius=float(radius)), rng).images[steps]
            found[some] = moved.unflatten(0, (-1, count))
        return self.margins(found)

    def sampled(self, points: int) -> Tensor:
        """Return the smallest margins among random images of the balls, half of them on corners or the sphere."""
        generator = torch.Generator().manual_seed(0)
        kind = {"generator": generator, "dtype": torch.float64}
        least = torch.full(self.margin.bias.shape, torch.inf, dtype=torch.float64)
        double = copy.deepcopy(self.encoder).double()
        for i, radius in enumerate(self.radii.double()):
            step = torch.randn(points, *self.x.shape[1:], **kind)
            if isinstance(self.ball, Linf):
                step = torch.where(torch.rand(points, 1, 1, 1, **kind) < 0.5, step.sign(), step.clamp(-1, 1))
            else:
                length = torch.rand(points, 1, 1, 1, **kind).mul(2).clamp_max(1)
                step = step / step.flatten(1).norm(dim=1).view(-1, 1, 1, 1) * length
            with torch.no_grad():
                reps = double((self.x[i].double() + radius * step).clamp(0, 1))
            least[i] = (reps @ self.margin.weights[i].double().T).amin(0) + self.margin.bias[i].double()
        return least


@lru_cache(maxsize=64)
def _encoder(name: str, seed: int) -> Encoder:
    """One for both balls, so that it is traced once."""
    return make(name, BUILDERS[name], seed)


@dataclass(frozen=True, eq=False)
class Solved:
    """The minima of a setting, [B, R] each: reached by an image, and bounded by the program."""

    setting: Setting
    reached: Tensor
    bound: Tensor
    open_gates: int


@lru_cache(maxsize=64)
def solved(name: str, norm: str, seed: int, few: bool = False) -> Solved:
    """Solve all programs of a setting; kept, since every certifier is held against them."""
    setting = Setting.draw(name, norm, seed, few)
    reached, bound = (torch.empty(setting.margin.bias.shape, dtype=torch.float64) for _ in range(2))
    gates = 0
    for i, (x, radius) in enumerate(zip(setting.x, setting.radii.double().tolist(), strict=True)):
        program = Program(setting.encoder, x, radius, norm)
        gates += len(program.gates)
        for row in range(setting.margin.bias.shape[1]):
            optimum = program.minimum(setting.margin.weights[i, row], float(setting.margin.bias[i, row]))
            reached[i, row], bound[i, row] = optimum.value, optimum.bound
    return Solved(setting, reached, bound, gates)
