"""Time of an adversarial training step of s inner steps, as a ratio of the bare network's work.

    python -m benchmarks.adversarial_step [--json]

The bare work is s input-gradient passes of the frozen network and one training step of it: the same rows through
network, head and loss, backward, Adam. L∞, untargeted, the last iterate. Random networks of CIFAR shape, one thread,
processor time; each step between two bare ones.
"""

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.paced import beside
from benchmarks.result import Result, from_rounds, report
from holdfast.core import Batch, Facts, Method, Rng, Student
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.methods.self_distillation import SelfDistillation
from holdfast.parts.methods.simclr import Simclr
from holdfast.runtime.optional import optional
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.copies import trainable
from holdfast.training.adversary import Adversary

TARGET = 1.1
SHORT = tuple(f"adversarial step, {name}, simclr, s = 3" for name in ("cnn_b_cifar", "resnet20_32"))
"""Names of what `short` measures."""
NETWORKS = {"zoo:cnn_b_cifar": 128, "zoo:resnet20_32": 32}
"""Network -> images in a batch."""

METHODS: dict[str, Method] = {"simclr": Simclr(), "self-distillation": SelfDistillation()}


def adversarial(student: Student, views: list[Tensor], steps: int) -> Callable[[], None]:
    """Return one step as the training loop makes it: attack, loss, backward, Adam."""
    student.train()
    adversary = Adversary(attack=Pgd(steps=steps, step_size=0.005, keep="last"))
    adam = torch.optim.Adam([value for value in student.parameters() if value.requires_grad])
    batch, rng = Batch(torch.arange(len(views[0]))), Rng(0, ids=tuple(map(str, range(len(views[0])))))

    def step() -> None:
        attacked = adversary.disturb(student, views, batch, rng)
        student(views, attacked, batch).loss.backward()
        adam.step()
        adam.zero_grad()

    return step


def bare(student: Student, views: list[Tensor], steps: int) -> Callable[[], None]:
    """Return the floor: the passes that attack and training cannot do without, on a network of plain layers."""
    frozen = copy.deepcopy(student.encoder.module).requires_grad_(False).eval()
    network, head = copy.deepcopy(student.encoder.module).train(), copy.deepcopy(student.projector).train()
    x = views[0]
    with torch.no_grad():
        clean = frozen(x)
    adam = torch.optim.Adam([*network.parameters(), *head.parameters()])
    criterion = optional("lightly.loss", "lightly", "train", "this benchmark").NTXentLoss(0.5)

    def step() -> None:
        for _ in range(steps):
            pixels = x.clone().requires_grad_()
            torch.autograd.grad((frozen(pixels) - clean).norm(dim=1).sum(), pixels)
        _loss(network, head, frozen if student.same_view else None, views, criterion).backward()
        adam.step()
        adam.zero_grad()

    return step


def _loss(
    network: nn.Module, head: nn.Module, teacher: nn.Module | None, views: list[Tensor], criterion: Callable
) -> Tensor:
    """Return the loss of views of which one stands for the attacked one too."""
    if teacher is None:
        a, b, c = (head(reps) for reps in network(torch.cat([*views, views[0]])).chunk(3))
        return criterion(a, b) + criterion(c, b)
    with torch.no_grad():
        target = teacher(views[0])
    return torch.stack([F.mse_loss(reps, target) for reps in network(torch.cat([views[0]] * 2)).chunk(2)]).sum()


def measure(rounds: int = 7) -> list[Result]:
    """Return the ratio for every network, method and number of inner steps.

    Args:
        rounds: steps that are timed, after one that is not.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [
            _measured(network, method, steps, rounds) for network in NETWORKS for method in METHODS for steps in (3, 10)
        ]
    finally:
        torch.set_num_threads(threads)


def _measured(network: str, method: str, steps: int, rounds: int) -> Result:
    encoder, images = trainable(open_encoder(network)), NETWORKS[network]
    generator = torch.Generator().manual_seed(0)
    views = [torch.rand(images, 3, 32, 32, generator=generator) for _ in range(2)]
    dim = encoder(views[0][:2]).shape[1]
    student = METHODS[method].student(encoder, Facts(dim, images))
    if student.same_view:
        views = [views[0]] * 2
    floor, step = bare(student, views, steps), adversarial(student, views, steps)
    ratios, floors = beside(step, floor, rounds)
    note = f"{images} images, {rounds} steps, floor {min(floors):.2f} s"
    return from_rounds(f"adversarial step, {network.removeprefix('zoo:')}, {method}, s = {steps}", ratios, TARGET, note)


def short() -> list[Result]:
    """Return the same of SimCLR with few inner steps, and of fewer rounds."""
    return [_measured(network, "simclr", 3, rounds=3) for network in NETWORKS]


if __name__ == "__main__":
    report(measure, __doc__)
