"""Tiny students of every method, in float64, and what they are shown."""

import torch
from torch import Tensor, nn

from holdfast.core import Batch, Encoder, Facts, Method, Student, registry
from holdfast.sources.encoders.shared.copies import trainable
from holdfast.training.checkpoint import tensors_of

SMALL = {
    "simclr": {"hidden": 8, "dim": 6, "temperature": 0.3},
    "byol": {"hidden": 8, "dim": 6, "momentum": 0.9},
    "moco_v2": {"hidden": 8, "dim": 6, "queue": 10, "momentum": 0.9},
    "moco_v3": {"hidden": 8, "dim": 6, "momentum": 0.9},
    "simsiam": {"hidden": 8, "dim": 6, "bottleneck": 4},
    "barlow_twins": {"hidden": 8, "dim": 6, "redundancy": 0.02},
    "vicreg": {"hidden": 8, "dim": 6, "invariance": 3.0, "variance": 5.0, "covariance": 2.0},
    "supcon": {"hidden": 8, "dim": 6},
    "supervised": {"uniformity": 0.3},
    "self_distillation": {},
}
LABELS = torch.tensor([0, 0, 1, 1, 1, 2, 0])  # one image is alone with its class
SIZE = len(LABELS)
BATCH = Batch(torch.arange(SIZE), LABELS)


def made(name: str, **changes: object) -> Method:
    return registry.build({"kind": "methods", "name": name, **SMALL[name], **changes})


def student_of(name: str, *, batchnorm: bool = False, **changes: object) -> Student:
    """Return a tiny float64 student, in training mode; its twin has other weights than itself."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        normal = nn.BatchNorm2d(3) if batchnorm else nn.Identity()
        net = nn.Sequential(nn.Conv2d(1, 3, 3, 2), normal, nn.Tanh(), nn.Flatten(), nn.Linear(12, 5))
        start = trainable(Encoder(net, mean=0.5, std=0.5))
        student = made(name, **changes).student(start, Facts(5, 20, 3)).double().train()
        moved(student)
    return student


@torch.no_grad()
def moved(network: nn.Module) -> None:
    for value in network.parameters():
        value.add_(0.3 * torch.randn_like(value))


def pictures(number: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return list(torch.rand(number, SIZE, 1, 6, 6, generator=generator, dtype=torch.float64))


def views_of(student: Student) -> list[Tensor]:
    return pictures(1) * student.views if student.same_view else pictures(student.views)


def snapshot(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in tensors_of(network).items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
