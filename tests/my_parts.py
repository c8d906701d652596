"""A user's own threat, attack, objective, loss and measure, in thirty lines."""

from dataclasses import dataclass

import torch

import holdfast
from holdfast.core import Attack, Objective, Passes
from holdfast.extend import Readout, check_readouts, evaluate, register
from holdfast.parts.threats.linf import Linf


@register("threats")
@dataclass(frozen=True)
class MyBall(Linf):
    """A ball like another."""


@register("attacks")
@dataclass(frozen=True)
class MyAttack(Attack):
    """The best of `steps` random images."""

    steps: int = 5
    passes = property(lambda self: Passes(forward=self.steps + 1))

    def __call__(self, goal, x, ball, rng, readouts=()):
        best = Readout(check_readouts(readouts, self.steps))
        best.see(0, x, *evaluate(goal, x))
        for step in range(1, self.steps + 1):
            drawn = ball.sample(x, rng.child("my_attack", step))
            best.see(step, drawn, *evaluate(goal, drawn))
        return best.trajectory()


@register("objectives")
@dataclass(frozen=True)
class Longer(Objective):
    """The length of a representation."""

    def __call__(self, reps, clean, target=None):
        return reps.norm(dim=1)


@holdfast.loss
def spread(reps, clean):
    """Return how far all coordinates move together."""
    return (reps - clean).abs().sum(1)


@holdfast.measure(loss=spread)
def turned(clean, attacked):
    """How far does a representation turn?"""
    return 1 - torch.cosine_similarity(clean, attacked)
