"""Failures whose worst noise is known, on images of two pixels that are their own representation."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast.core import Ball, Encoder, Rng
from holdfast.parts.learners.shared.learner import LearnedMixture
from holdfast.parts.learners.worst_mixture import WorstMixture


class Pixels(nn.Module):
    """The representation is the image."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)


@dataclass
class Problem:
    """Images [N, 1, 1, 2], their classes, and a value that is above 0 where a point fails for an image."""

    x: Tensor
    labels: Tensor
    value: Callable[[Tensor, Tensor], Tensor]  # (points [rows, draws, 2], rows) -> [rows, draws]

    def event(self, reps: Tensor, rows: Tensor) -> Tensor:
        return self.value(reps, rows)

    def part(self, count: int) -> "Problem":
        return Problem(self.x[:count], self.labels[:count], self.value)

    def learn(self, learner: WorstMixture, ball: Ball, seed: int = 0) -> LearnedMixture:
        encoder = Encoder(Pixels(), mean=0.0, std=1.0)
        clean = self.x.flatten(1)
        return learner.learn(encoder, self.x, clean, self.event, self.labels, ball, Rng(seed))

    def robustness(self, learned: LearnedMixture, draws: int = 200) -> float:
        """The share of hard draws that do not fail."""
        noise = learned.noise.at(self.x.flatten(1), self.labels)
        z = torch.randn(
            len(self.x), draws, noise.numbers(self.x), generator=torch.Generator().manual_seed(9), dtype=self.x.dtype
        )
        values = self.event(noise.push(self.x, z).flatten(2), torch.arange(len(self.x)))
        return float((values <= 0).double().mean())


def points(count: int, seed: int = 0) -> Tensor:
    return torch.rand(count, 2, generator=torch.Generator().manual_seed(seed))


def half_spaces(count: int = 200, near: int = 80, far: int = 0) -> Problem:
    """Images .05 left (`near` of them) and right of the line p_0 = .5, and `far` ones at a distance of .4.

    A ball of .1 lets one noise for all break one side only: the infimum is the share of the smaller side and of
    those that are far; a noise that knows the side breaks both.
    """
    place = points(count)
    left = torch.arange(count) < near
    place[:, 0] = torch.where(left, 0.45, 0.55)
    place[count - far :, 0] = 0.9
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    place, left = place[order], left[order]

    def value(point: Tensor, rows: Tensor) -> Tensor:
        return 20 * (point[..., 0] - 0.5) * torch.where(left, 1, -1)[rows, None]

    return Problem(place.view(-1, 1, 1, 2), (~left).long(), value)


def two_moons(count: int = 400, seed: int = 0) -> Problem:
    """Two arcs and the classifier between them: its edge is the curve p_1 = .5 + .15 sin(2π p_0)."""
    where = points(count, seed)
    labels = torch.arange(count) % 2
    wave = 0.15 * (2 * torch.pi * where[:, 0]).sin()
    away = (0.02 + 0.1 * where[:, 1]) * torch.where(labels == 1, 1, -1)
    place = torch.stack([where[:, 0], 0.5 + wave + away], 1)

    def value(point: Tensor, rows: Tensor) -> Tensor:
        above = point[..., 1] - 0.5 - 0.15 * (2 * torch.pi * point[..., 0]).sin()
        return 20 * above * torch.where(labels == 1, -1, 1)[rows, None]

    return Problem(place.view(-1, 1, 1, 2), labels, value)


def discs(count: int = 100, radius: float = 0.04) -> Problem:
    """Each image fails in one disc alone, at (.1, 0) to its right where it is left of the middle, else to its left."""
    place = 0.3 + 0.4 * points(count)
    labels = (place[:, 0] > 0.5).long()
    centre = place + torch.stack([0.1 - 0.2 * labels, torch.zeros(count)], 1)

    def value(point: Tensor, rows: Tensor) -> Tensor:
        return 20 * (radius - (point - centre[rows, None].to(point)).norm(dim=-1))

    return Problem(place.view(-1, 1, 1, 2), labels, value)
