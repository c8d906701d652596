"""Time per attack step, as a ratio of the bare loop: one forward and one input-gradient pass of the same network.

    python -m benchmarks.attack_step [--json]

`zoo:resnet18_32`, batch 64, untargeted, ℓ∞, one thread. Each step is divided by bare steps made right before and after
it. What remains of other people's load is a few percent, so the same ratio is also computed from the attack's own work
alone: its time per step on a network that costs nothing, minus the bare loop's on that network, added to the floor.
"""

import sys
from collections.abc import Callable
from copy import deepcopy
from itertools import product
from statistics import median

import torch
from torch import Tensor, nn

from benchmarks.paced import Paced, Timing
from benchmarks.peers import PEERS
from benchmarks.result import Result, from_rounds, report
from holdfast.core import Attack, Encoder, Rng
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders import open_encoder

TARGET = 1.05
BATCH, RADIUS = 64, 0.05


class Free(nn.Module):
    """A network that costs next to nothing: the first 512 pixels of each image."""

    def forward(self, x: Tensor) -> Tensor:
        """Return pixels as the representation, [B, 512]."""
        return x.flatten(1)[:, :512]


def bare_step(network: nn.Module, clean: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the floor of a gradient attack: forward, gradient to the pixels, sign, clamp."""

    def step(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            value = torch.linalg.vector_norm(network(x) - clean, dim=-1).sum()
            (gradient,) = torch.autograd.grad(value, x)
        with torch.no_grad():
            return (x + 0.001 * gradient.sign()).clamp_(0, 1)

    return step


def bare_query(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return the floor of a gradient-free attack: one forward pass."""
    return torch.no_grad()(network)


def time_attack(attack: Attack, network: nn.Module, floor: Callable[[Tensor], object], x: Tensor) -> Timing:
    """Time an attack of Holdfast, through an `Encoder` around the paced network, as an audit runs it."""
    paced = Paced(network, floor, gradient=not isinstance(attack, Square))
    encoder = Encoder(paced, mean=0.0, std=1.0, name="resnet18_32")
    with torch.no_grad():
        clean = network(x)
    goal = Untargeted().pursue(encoder, clean)
    rng = Rng(0, ids=tuple(str(i) for i in range(len(x))))
    return paced.time(lambda: attack(goal, x, Linf(RADIUS), rng))


def measure(steps: int = 6, peer_steps: int = 3, queries: int = 10) -> list[Result]:
    """Return the ratios of Holdfast's attacks and of its peers.

    Args:
        steps: attack steps that are timed, each beside one bare step.
        peer_steps: the same for the peers.
        queries: proposals of the Square attack that are timed, each beside one bare forward pass.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        network = open_encoder("zoo:resnet18_32").module
        x = torch.rand(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            clean = network(x)
        bare = bare_step(network, clean)
        results: list[Result] = []
        for attack, longer in ((Pgd(steps), Pgd(200)), (Apgd(steps), Apgd(200))):
            timing, name = time_attack(attack, network, bare, x), f"{type(attack).__name__} step"
            results += _results(name, timing, steps, TARGET)
            free = Free()
            own = time_attack(longer, free, bare_step(free, free(x)), x)
            results.append(_own_work(name, own, min(timing.floors)))
        timing = time_attack(Square(queries), network, bare_query(network), x)
        results += _results("Square query", timing, queries, None)
        thawed = deepcopy(network).requires_grad_(True)  # as a user's model comes; the peers do not freeze it
        for (name, make), (how, model) in product(PEERS.items(), (("", network), (", weights not frozen", thawed))):
            paced = Paced(model, bare)
            try:
                attack = make(paced, x, clean, peer_steps, RADIUS)
            except ImportError as error:
                print(f"{name} skipped: {error}; pip install 'holdfast[bench]'", file=sys.stderr)
                continue
            results += _results(f"{name} PGD step{how}", paced.time(attack), peer_steps, None)
        return results
    finally:
        torch.set_num_threads(threads)


def _results(name: str, timing: Timing, steps: int, target: float | None) -> list[Result]:
    floor = "bare forward" if "query" in name else "bare step"
    note = f"beside one {floor} each, {len(timing.ratios)} pairs, floor {min(timing.floors):.2f} s"
    whole = Result(f"{name}, whole call", timing.whole_ratio(steps), None, "x", None, f"{steps} steps, all it does")
    return [from_rounds(name, timing.ratios, target, note), whole]


def _own_work(name: str, on_free: Timing, floor: float) -> Result:
    own = median(on_free.steps) - median(on_free.floors)
    note = f"1 + {1000 * own:.2f} ms / {floor:.2f} s, {len(on_free.steps)} pairs"
    return Result(f"{name}, from its own work", 1 + own / floor, None, "x", TARGET, note)


if __name__ == "__main__":
    report(measure, __doc__)
