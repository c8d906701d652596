"""Time per attack step, as a ratio of the bare loop: one forward and one input-gradient pass of the same network.

    python -m benchmarks.attack_step [--json]

`zoo:resnet18_32`, batch 64, untargeted, ℓ∞, one thread. Each step is divided by bare steps made right before and after
it. What remains of other people's load is a few percent, so the same ratio is also computed from the attack's own work
alone: its time per step on a network that costs nothing, minus the bare loop's on that network, added to the floor.
That work depends on the pixels and not on the network, so it is set against smaller networks too.

The search for breaking radii has its failure among 500 images; a step is a gradient pass, its looks counted with it.
In bf16 and compiled, whole calls are set against bare loops in float32, with what the panel's check *precision* says of
bf16 on digits.
"""

import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from benchmarks.paced import Paced, Timing, beside, seconds
from benchmarks.peers import PEERS
from benchmarks.result import Result, from_rounds, report
from holdfast.auditing.plan import Plan
from holdfast.auditing.run import run_audit
from holdfast.core import Attack, Encoder, Rng, Shard
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.minimum_norm import MinimumNorm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.checks.precision import Precision
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders import open_encoder

TARGET = 1.03
BATCH, RADIUS, POPULATION = 64, 0.05, 500
SMALLER = ("resnet20_32", "cnn_b_cifar")
"""Networks against which the attacks' own work is set beside ResNet-18."""

OWN_STEPS = 200
"""Steps on a network that costs nothing."""


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


@dataclass(frozen=True)
class Search:
    """A search whose steps are timed.

    Attributes:
        name: of the rows.
        run: makes so many steps with an encoder, from images and their clean representations.
        floor: of a step.
        steps: that are timed beside ResNet-18.
    """

    name: str
    run: Callable[[Encoder, Tensor, Tensor, int], object]
    floor: Callable[[nn.Module, Tensor], Callable[[Tensor], Tensor]]
    steps: int


def attacking(make: Callable[[int], Attack]) -> Callable[[Encoder, Tensor, Tensor, int], object]:
    """Return what runs an attack as an audit does."""

    def run(encoder: Encoder, x: Tensor, clean: Tensor, steps: int) -> object:
        return make(steps)(Untargeted().pursue(encoder, clean), x, Linf(RADIUS), _rng(x))

    return run


def breaking(encoder: Encoder, x: Tensor, clean: Tensor, steps: int) -> object:
    """Search for breaking radii in a population of which `x` are the first images."""
    others = clean.roll(1, 0)[torch.arange(POPULATION - len(x)) % len(x)]
    noise = torch.randn(others.shape, generator=torch.Generator().manual_seed(1))
    population = torch.cat([clean, others + clean.std() * noise])
    return BreakingRadii(steps=steps).run(Shard(encoder, x, torch.arange(len(x)), _rng(x), population))


def _rng(x: Tensor) -> Rng:
    return Rng(0, ids=tuple(str(number) for number in range(len(x))))


SEARCHES = (
    Search("Pgd step", attacking(Pgd), lambda network, clean: bare_step(network, clean), 6),
    Search("Apgd step", attacking(Apgd), lambda network, clean: bare_step(network, clean), 6),
    Search("Square query", attacking(Square), lambda network, clean: bare_query(network), 10),
    Search("minimum-norm step", attacking(MinimumNorm), lambda network, clean: bare_step(network, clean), 6),
    Search("breaking-radius step", breaking, lambda network, clean: bare_step(network, clean), 12),
)


def time_search(search: Search, network: nn.Module, x: Tensor, steps: int) -> Timing:
    """Time a search of Holdfast, through an `Encoder` around the paced network."""
    with torch.no_grad():
        clean = network(x)
    paced = Paced(network, search.floor(network, clean), gradient="step" in search.name)
    encoder = Encoder(paced, mean=0.0, std=1.0, name="bare")
    return paced.time(lambda: search.run(encoder, x, clean, steps))


def measure(peer_steps: int = 3) -> list[Result]:
    """Return the ratios of Holdfast's attacks and of its peers.

    Args:
        peer_steps: steps of the peers, and of attacks in bf16 and compiled.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        network = open_encoder("zoo:resnet18_32").module
        x = torch.rand(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        results: list[Result] = []
        for search in SEARCHES:
            timing = time_search(search, network, x, search.steps)
            results += _results(search.name, timing, search.steps, TARGET)
            own = time_search(search, Free(), x, OWN_STEPS)
            results.append(_own_work(search.name, own, min(timing.floors), ", resnet18_32"))
            for name in SMALLER:
                results.append(_own_work(search.name, own, _floor(search, name, x), f", {name}"))
        for name in ("resnet18_32", *SMALLER):
            results += _cheaper_passes(name, x, peer_steps)
        return [*results, *_peers(network, x, peer_steps)]
    finally:
        torch.set_num_threads(threads)


def _floor(search: Search, name: str, x: Tensor) -> float:
    """Return the seconds of one bare step of a network."""
    network = open_encoder(f"zoo:{name}").module
    with torch.no_grad():
        bare = search.floor(network, network(x))
    return min(seconds(lambda: bare(x)) for _ in range(7))


def _cheaper_passes(name: str, x: Tensor, steps: int) -> list[Result]:
    """Return whole attacks in bf16 and compiled, beside as many bare steps in float32."""
    results = []
    plain = open_encoder(f"zoo:{name}")
    with torch.no_grad():
        clean = plain(x)
    bare = bare_step(plain.module, clean)

    def floor() -> None:
        for _ in range(steps):
            bare(x)

    reached = _attacked(plain, x, clean, steps)
    for title, settings in {"bf16": {"precision": "bf16"}, "compiled": {"compiled": True}}.items():
        encoder = open_encoder(f"zoo:{name}").prepare(**settings)
        ratios, floors = beside(lambda: _attacked(encoder, x, clean, steps), floor, 3)  # noqa: B023
        share = _attacked(encoder, x, clean, steps) / reached
        note = f"{steps} steps, floor {1e3 * min(floors) / steps:.0f} ms in float32; moves {share:.4f} times as far"
        verdict = _verdict(name, settings["precision"]) if "precision" in settings else ""
        results.append(from_rounds(f"Pgd, whole call, {title}, {name}", ratios, None, note + verdict))
    return results


def _verdict(name: str, precision: str) -> str:
    """Return what the panel says of an audit of digits in this precision, and by how much float32 gets farther."""
    attack, ball = Pgd(20), Linf(RADIUS)
    measures, checks = (UniversalQuantile(attack=attack, ball=ball),), (Precision(attack, ball, BATCH),)
    plan = Plan(
        (f"zoo:{name}",), "digits?channels=3&size=32", measures, checks, images=200, attacked=BATCH, precision=precision
    )
    with TemporaryDirectory() as folder:
        (entry,) = run_audit(plan, Path(folder)).encoders
    said = entry.checks["precision"]
    return f"; check precision: {said.status}, float32 gets {100 * said.details['gain of float32']:+.2f} % farther"


def _attacked(encoder: Encoder, x: Tensor, clean: Tensor, steps: int) -> float:
    """Return how far PGD moves representations on average, judged in float32."""
    goal = Untargeted().pursue(encoder, clean)
    trajectory = Pgd(steps)(goal, x, Linf(RADIUS), _rng(x))
    return float(trajectory.reevaluate(goal, encoder).values[-1].mean())


def _peers(network: nn.Module, x: Tensor, steps: int) -> list[Result]:
    results: list[Result] = []
    with torch.no_grad():
        clean = network(x)
    bare = bare_step(network, clean)
    thawed = deepcopy(network).requires_grad_(True)  # as a user's model comes; the peers do not freeze it
    for (name, make), (how, model) in product(PEERS.items(), (("", network), (", weights not frozen", thawed))):
        paced = Paced(model, bare)
        try:
            attack = make(paced, x, clean, steps, RADIUS)
        except ImportError as error:
            print(f"{name} skipped: {error}; pip install 'holdfast[bench]'", file=sys.stderr)
            continue
        results += _results(f"{name} PGD step{how}", paced.time(attack), steps, None)
    return results


def _results(name: str, timing: Timing, steps: int, target: float | None) -> list[Result]:
    floor = "bare forward" if "query" in name else "bare step"
    note = f"beside one {floor} each, {len(timing.ratios)} pairs, floor {min(timing.floors):.2f} s"
    whole = Result(f"{name}, whole call", timing.whole_ratio(steps), None, "x", None, f"{steps} steps, all it does")
    return [from_rounds(name, timing.ratios, target, note), whole]


def _own_work(name: str, on_free: Timing, floor: float, network: str = "") -> Result:
    own = median(on_free.steps) - median(on_free.floors)
    note = f"1 + {1000 * own:.2f} ms / {1000 * floor:.1f} ms, {len(on_free.steps)} pairs"
    return Result(f"{name}, from its own work{network}", 1 + own / floor, None, "x", TARGET, note)


if __name__ == "__main__":
    report(measure, __doc__)
