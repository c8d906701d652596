"""What attacks do besides passing images through the network, as a ratio of the bare loop's: steps on one that is free.

    python -m benchmarks.own_work [--json]

The network is the first 512 pixels of an image, so a step is all bookkeeping: the objective, the walk, the ball, what
is read out. A bare step is a forward and an input-gradient pass, the sign and the clamp, as in `attack_step`. 64 images
of 32 x 32, one thread, processor time, each step between two bare ones, the median of each round. It takes seconds, so
it tells at once of work added to every step, which next to a real network is a thousandth.
"""

from statistics import median

import torch
from torch import Tensor, nn

from benchmarks.paced import Paced
from benchmarks.result import Result, from_rounds, report
from holdfast.core import Attack, Encoder, Rng
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.minimum_norm import MinimumNorm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.threats.linf import Linf

BATCH, RADIUS, DIM = 64, 0.05, 512
SHORT = ("own work of *",)
"""Names of what `short` measures."""


class Free(nn.Module):
    """A network that costs next to nothing: the first pixels of each image."""

    def forward(self, x: Tensor) -> Tensor:
        """Return pixels as the representation, [B, 512]."""
        return x.flatten(1)[:, :DIM]


def measure(steps: int = 40, rounds: int = 7) -> list[Result]:
    """Return, for each attack, its step on a free network over the bare one.

    Args:
        steps: of each attack.
        rounds: of all attacks in turns, after one that warms up.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        x = torch.rand(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        attacks: tuple[Attack, ...] = (Pgd(steps), Apgd(steps), MinimumNorm(steps), Square(steps))
        ratios = [[median(_ratios(attack, x)) for attack in attacks] for _ in range(rounds + 1)][1:]
        note = f"{BATCH} images of 32 x 32, {rounds} rounds of {steps} steps"
        names = (f"own work of {type(attack).__name__}, step / bare step" for attack in attacks)
        return [from_rounds(name, values, None, note) for name, *values in zip(names, *ratios, strict=True)]
    finally:
        torch.set_num_threads(threads)


short = measure


def _ratios(attack: Attack, x: Tensor) -> list[float]:
    clean = Free()(x)

    def bare(pixels: Tensor) -> Tensor:
        pixels = pixels.detach().requires_grad_()
        with torch.enable_grad():
            value = torch.linalg.vector_norm(Free()(pixels) - clean, dim=-1).sum()
            (gradient,) = torch.autograd.grad(value, pixels)
        with torch.no_grad():
            return (pixels + 0.001 * gradient.sign()).clamp_(0, 1)

    paced = Paced(Free(), bare, gradient=not isinstance(attack, Square))
    encoder = Encoder(paced, mean=0.0, std=1.0, name="free")
    rng = Rng(0, ids=tuple(str(number) for number in range(len(x))))
    return paced.time(lambda: attack(Untargeted().pursue(encoder, clean), x, Linf(RADIUS), rng)).ratios


if __name__ == "__main__":
    report(measure, __doc__)
