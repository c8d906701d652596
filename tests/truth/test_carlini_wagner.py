"""Carlini & Wagner's attack where the worst case is known: linear goals, inside and at the edge of the pixel box."""

import pytest
import torch
from torch import Tensor

from holdfast.core import Ball, Encoder, Goal, Passes, Rng
from holdfast.parts.attacks.carlini_wagner import CarliniWagner
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue

IDS = tuple("abcdefgh")
WAY = torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(0))
NORMS = {Linf: WAY.abs().sum(), L2: WAY.norm()}
BALLS = (Linf(0.05), L2(0.4))


def linear(way: Tensor, scale: float = 1.0) -> Goal:
    return lambda x: (scale * (x * way).flatten(1).sum(1), x.flatten(1))


@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_reaches_the_worst_case_of_linear_goals(ball: Ball) -> None:
    x = 0.4 + 0.2 * torch.rand(8, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    found = CarliniWagner()(linear(WAY), x, ball, Rng(0, ids=IDS))
    gain = found.values[-1] - (x * WAY).flatten(1).sum(1)
    best = ball.radius * NORMS[type(ball)]
    assert (gain > 0.99 * best).all()
    assert (gain <= best * (1 + 1e-5)).all()


@pytest.mark.parametrize("ball", BALLS, ids=str)
@pytest.mark.parametrize("edge", [0.0, 1.0])
def test_uses_the_whole_ball_at_the_edge_of_the_box(ball: Ball, edge: float) -> None:
    """Half of all ways lead out of the box: pixels that want back come back, and the others take nothing from them."""
    x = torch.full((8, 1, 8, 8), edge)
    room = WAY.clamp_min(0) if edge == 0 else WAY.clamp_max(0)
    best = ball.radius * (room.abs().sum() if isinstance(ball, Linf) else room.norm())
    found = CarliniWagner()(linear(WAY), x, ball, Rng(0, ids=IDS))
    gain = found.values[-1] - edge * WAY.sum()
    assert (gain > 0.99 * best).all()
    assert (gain <= best * (1 + 1e-5)).all()


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_scale_of_the_goal_does_not_matter(scale: float, edges: Tensor) -> None:
    attack, rng = CarliniWagner(20), Rng(0, ids=IDS)
    plain = attack(linear(WAY), edges, BALLS[0], rng)
    scaled = attack(linear(WAY, scale), edges, BALLS[0], rng)
    torch.testing.assert_close(scaled.images[20], plain.images[20], rtol=0, atol=1e-4)


def test_finds_about_what_pgd_does_with_as_many_passes(tiny: Encoder, edges: Tensor) -> None:
    with torch.no_grad():
        goal = Untargeted().pursue(tiny, tiny(edges))
    for ball in BALLS:
        tiny.passes = Passes()
        ours = CarliniWagner(50)(goal, edges, ball, Rng(0, ids=IDS))
        assert tiny.passes == CarliniWagner(50).passes * 8
        theirs = Pgd(50)(goal, edges, ball, Rng(0, ids=IDS))
        assert float(ours.values[-1].mean()) > 0.95 * float(theirs.values[-1].mean())


def test_last_is_the_last_iterate_and_best_the_best(tiny: Encoder, edges: Tensor) -> None:
    with torch.no_grad():
        goal = Untargeted().pursue(tiny, tiny(edges))
    steps = tuple(range(31))
    last = CarliniWagner(30, rate=3.0, keep="last")(goal, edges, BALLS[0], Rng(0, ids=IDS), steps)
    best = CarliniWagner(30, rate=3.0)(goal, edges, BALLS[0], Rng(0, ids=IDS), steps)
    torch.testing.assert_close(best.values, last.values.cummax(0).values)
    assert (best.values[-1] > last.values[-1]).any()
    twice = CarliniWagner(30, rate=3.0, restarts=2)(goal, edges, BALLS[0], Rng(0, ids=IDS))
    assert (twice.values[-1] >= best.values[-1]).all()
    assert (twice.values[-1] > best.values[-1]).any()
    assert (twice.values[0] < twice.values[-1]).all()  # a read-out at 0 knows both starts, and no more


def test_longer_searches_begin_like_shorter_ones(tiny: Encoder, edges: Tensor) -> None:
    with torch.no_grad():
        goal = Untargeted().pursue(tiny, tiny(edges))
    attack = CarliniWagner(12)
    assert attack.canonicalise_prefix() == attack.truncate(5).canonicalise_prefix()
    whole = attack(goal, edges, BALLS[0], Rng(0, ids=IDS), (5, 12))
    short = attack.truncate(5)(goal, edges, BALLS[0], Rng(0, ids=IDS))
    assert torch.equal(whole.images[5], short.images[5])


@pytest.mark.parametrize(
    ("parameter", "value", "expected"),
    [
        ("steps", 0, "a whole number above 0"),
        ("restarts", 0, "a whole number above 0"),
        ("rate", 0.0, "a finite number above 0"),
        ("rate", float("inf"), "a finite number"),
        ("start", -1.0, "a finite number above 0"),
    ],
)
def test_impossible_parameters_are_refused(parameter: str, value: float, expected: str) -> None:
    with pytest.raises(BadValue, match=f"^carlini_wagner.{parameter}: expected {expected}, got {value}$"):
        CarliniWagner(**{parameter: value})


def test_the_first_step_is_as_long_as_the_rate() -> None:
    """Adam's averages are those of what was seen, not of the zeros that they begin with."""
    x, ball = torch.full((8, 1, 8, 8), 0.5), Linf(0.2)
    found = CarliniWagner(1, rate=0.3)(linear(WAY), x, ball, Rng(0, ids=IDS), (0, 1))
    before, after = (torch.atanh((found.images[step] - x) / ball.radius) for step in (0, 1))
    torch.testing.assert_close(after - before, 0.3 * WAY.sign().expand_as(x), rtol=0, atol=1e-3)
