"""Time of a training step, as a ratio of the same step in a bare loop as lightly's documentation writes it.

    python -m benchmarks.training_step [--json]

SimCLR on pictures of 32 x 32 in memory: views, encoder, head, NT-Xent, Adam. The bare loop draws its views by the same
code, `Views`, and has a PGD of its own, of three steps; what remains above it is our loop: the order of images, rates,
checks of what is finite, the log, Accelerate, random numbers of dropout. A step is what a long training takes more than
a short one, divided by the steps it has more, so neither the start nor the last checkpoint counts. One thread,
processor time, in turns.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from benchmarks.paced import seconds
from benchmarks.result import Result, from_rounds, report
from holdfast.core import Rng
from holdfast.numerics.geometry.views import Views
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.methods.simclr import Simclr
from holdfast.runtime.optional import optional
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.copies import trainable
from holdfast.training.adversary import Adversary
from holdfast.training.images import TrainingImages
from holdfast.training.loop import train
from holdfast.training.optimiser import Optimiser
from holdfast.training.recipe import Recipe

NETWORKS = {"zoo:cnn_b_cifar": 128, "zoo:resnet20_32": 32}
"""Network -> images in a batch."""

PLAIN, ADVERSARIAL = 1.05, 1.08
FEW, MANY = 2, 22
"""Steps of the two trainings that are compared."""

SHORT = ("training step, resnet20_32*",)
"""Names of what `short` measures."""

EPSILON, SIZE, INNER = 0.05, 0.01, 3
"""Radius of the ℓ∞ ball, step and steps of the attack."""


def our_loop(
    network: str, images: TrainingImages, batch: int, adversary: Adversary | None, device: str = "cpu"
) -> Callable[[int], None]:
    """Return a training of so many steps as `train` makes it."""
    adam = Optimiser(schedule="constant")

    recipe = Recipe(network, "memory", Simclr(), batch_size=batch, optimiser=adam, adversary=adversary, device=device)

    def run(steps: int) -> None:
        with TemporaryDirectory() as folder:
            train(replace(recipe, steps=steps), Path(folder), images=images)

    return run


def bare_loop(network: str, x: Tensor, batch: int, attacked: bool) -> Callable[[int], None]:
    """Return the same in a loop of a few lines, where x is."""
    losses = optional("lightly.loss", "lightly", "train", "this benchmark")
    heads = optional("lightly.models.modules.heads", "lightly", "train", "this benchmark")
    views, ids = Views(), [f"{number:06d}" for number in range(len(x))]

    def run(steps: int) -> None:
        backbone = trainable(open_encoder(network)).module.to(x.device).train()
        head = heads.SimCLRProjectionHead(backbone(x[:2]).shape[1], 300, 100, batch_norm=False).to(x.device)
        criterion = losses.NTXentLoss(temperature=0.5)
        adam = torch.optim.Adam([*backbone.parameters(), *head.parameters()], 1e-3)
        for step in range(steps):
            places = torch.randperm(len(x))[:batch]
            rng = Rng(0, ids=tuple(ids[place] for place in places.tolist()))
            x0, x1 = (views(x[places], rng.child(step, view)) for view in range(2))
            looks = [x0, x1, _attack(backbone, x0)] if attacked else [x0, x1]
            z0, z1, *rest = (head(reps) for reps in backbone(torch.cat(looks)).chunk(len(looks)))
            loss = criterion(z0, z1)
            for z2 in rest:
                loss = loss + criterion(z2, z1)
            loss.backward()
            adam.step()
            adam.zero_grad()

    return run


def _attack(backbone: torch.nn.Module, x: Tensor) -> Tensor:
    """Return PGD's last iterate, of the network in eval mode without gradients of its weights."""
    backbone.eval().requires_grad_(False)
    with torch.no_grad():
        clean = backbone(x)
    at = (x + EPSILON * (2 * torch.rand_like(x) - 1)).clamp(0, 1)
    for _ in range(INNER):
        at.requires_grad_()
        (gradient,) = torch.autograd.grad((backbone(at) - clean).norm(dim=1).sum(), at)
        at = (x + (at.detach() + SIZE * gradient.sign() - x).clamp(-EPSILON, EPSILON)).clamp(0, 1)
    backbone.train().requires_grad_(True)
    return at


def measure(rounds: int = 3) -> list[Result]:
    """Return the ratio for every network, with and without an adversary.

    Args:
        rounds: pairs of trainings, after one that warms up.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_measured(network, attacked, rounds) for network in NETWORKS for attacked in (False, True)]
    finally:
        torch.set_num_threads(threads)


def short() -> list[Result]:
    """Return the ratios for ResNet-20."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_measured("zoo:resnet20_32", attacked, rounds=2) for attacked in (False, True)]
    finally:
        torch.set_num_threads(threads)


def _measured(network: str, attacked: bool, rounds: int) -> Result:
    batch = NETWORKS[network]
    x = torch.randint(0, 256, (4 * batch, 3, 32, 32), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    images = TrainingImages(Arrays(x, name="memory"), geometry=None)
    adversary = None
    if attacked:
        adversary = Adversary(attack=Pgd(steps=INNER, step_size=SIZE, keep="last"))
    ours = our_loop(network, images, batch, adversary)
    bare = bare_loop(network, x.float() / 255, batch, attacked)
    for training in (ours, bare):  # warms up
        training(FEW)
    ratios, floors = [], []
    for _ in range(rounds):
        floors.append(_further(bare))
        ratios.append(_further(ours) / floors[-1])
    name = f"training step, {network.removeprefix('zoo:')}{', adversary' if attacked else ', plain'}"
    note = f"{batch} images, {MANY - FEW} steps a round, floor {median(floors):.3f} s a step"
    return from_rounds(name, ratios, ADVERSARIAL if attacked else PLAIN, note)


def _further(training: Callable[[int], None]) -> float:
    """Return what a further step takes."""
    start = seconds(lambda: training(FEW))
    return (seconds(lambda: training(MANY)) - start) / (MANY - FEW)


if __name__ == "__main__":
    report(measure, __doc__)
