"""Every attack x every ball x every objective: inside the ball, reproducible, honest about what it found and cost."""

import pytest
import torch
from torch import Tensor, nn

from holdfast.core import Attack, Ball, Encoder, Grid, Passes, Rng, registry
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.shared.gradient import pick
from holdfast.parts.attacks.square import Square, _Pixels, _Signs
from holdfast.parts.objectives.loss import Loss
from holdfast.parts.objectives.pair_margin import PairMargin
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.threats.shared.window import rectangle
from holdfast.runtime.errors import BadValue, NotFinite, Unsupported

IDS = tuple("abcdefgh")
NAMES = registry.names("attacks")
BALLS: list[Ball] = [
    registry.find("threats", "linf")(0.1),
    registry.find("threats", "l2")(0.5),
    registry.find("threats", "patch")(0.5, share=0.15),
    registry.find("threats", "patch")(0.4, share=0.2, place="bottom-left", aspect=0.5),
]


def any_loss(reps: Tensor, clean: Tensor, target: Tensor | None) -> Tensor:
    return (reps - clean).square().sum(1)


OF_TOKENS = {name: {"dim": 1} for name in ("token_drift", "token_margin", "segment_margin")}
OBJECTIVES = [
    Loss(any_loss) if name == "loss" else registry.find("objectives", name)(**OF_TOKENS.get(name, {}))
    for name in registry.names("objectives")
]
DRIFT = Untargeted()
SEARCHED_EVERYWHERE = ("fgsm", "pgd")
"""Attacks that are quick where a patch may be anywhere."""
QUICK = (*SEARCHED_EVERYWHERE, "apgd")
"""Attacks whose steps are tried there in the fast suite."""
IN_BALLS = [
    pytest.param(
        name, ball, marks=[pytest.mark.slow] * (ball is BALLS[2] and name not in SEARCHED_EVERYWHERE),
        id=f"{name}-{type(ball).__name__}{number}",
    )
    for name in NAMES
    for number, ball in enumerate(BALLS)
]  # fmt: skip
TRIED = [(name, ball, DRIFT) for name in NAMES for ball in BALLS]
TRIED += [(NAMES[i % len(NAMES)], BALLS[i % len(BALLS)], objective) for i, objective in enumerate(OBJECTIVES)]
TRIED += [("minimum_norm", ball, PairMargin()) for ball in BALLS]
CASES = [
    pytest.param(
        name,
        ball,
        objective,
        marks=[pytest.mark.slow] * (ball is BALLS[2] and name not in QUICK and objective is DRIFT),
    )
    for name, ball, objective in TRIED
]
"""An attack never sees which objective it climbs: one attack for each objective shows it; one looks at the sign."""


def make(name: str) -> Attack:
    """The attack with a small budget."""
    cls = registry.find("attacks", name)
    small = {"pgd": {"steps": 6}, "bim": {"steps": 6}, "apgd": {"steps": 8, "restarts": 2}, "square": {"steps": 20}}
    small |= {"minimum_norm": {"steps": 20}, "carlini_wagner": {"steps": 20, "restarts": 2}}
    return Ensemble((Pgd(5), Square(10))) if cls is Ensemble else cls(**small.get(name, {}))


def run(attack: Attack, encoder: Encoder, x: Tensor, ball: Ball, objective=DRIFT, ids=IDS, seed=0, readouts=()):
    with torch.no_grad():
        clean = encoder(x)
    encoder.grid = Grid(clean.shape[1], 1, 1)  # objectives of patches take each number for a token
    goal = objective.pursue(encoder, clean, clean.roll(1, 0))
    encoder.passes = Passes()
    return attack(goal, x, ball, Rng(seed, ids=tuple(ids)), readouts), clean


@pytest.mark.parametrize(
    ("name", "ball", "objective"), CASES, ids=lambda value: value if isinstance(value, str) else type(value).__name__
)
def test_stays_in_ball_and_box_and_reports_truly(name, ball, objective, tiny, edges) -> None:
    attack = make(name)
    found, clean = run(attack, tiny, edges, ball, objective, readouts=(0, attack.steps))
    assert tiny.passes == attack.passes_in(ball) * len(edges)
    for step in (0, attack.steps):
        x = found.images[step]
        assert float(ball.size(x.double() - edges.double()).max()) <= ball.radius  # a certificate allows no rounding
        assert x.min() >= 0
        assert x.max() <= 1
        with torch.no_grad():
            torch.testing.assert_close(tiny(x), found.reps[step], rtol=1e-4, atol=1e-5)
    if not objective.batchwise:  # batch-wise values depend on the other images, which move too
        value = objective(found.reps[attack.steps], clean, clean.roll(1, 0))
        torch.testing.assert_close(value, found.values[-1], rtol=1e-4, atol=1e-5)


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("name", "ball"), IN_BALLS)
def test_same_seed_same_result_in_any_batch(name, ball, tiny, edges) -> None:
    attack = make(name)
    whole, _ = run(attack, tiny, edges, ball)
    again, _ = run(attack, tiny, edges, ball)
    assert torch.equal(whole.images[attack.steps], again.images[attack.steps])
    order = [6, 1, 3]
    some, _ = run(attack, tiny, edges[order], ball, ids=[IDS[i] for i in order])
    # Rounding may flip the sign of a vanishing gradient, so values are compared, not pixels.
    torch.testing.assert_close(some.values[-1], whole.values[-1][order], rtol=1e-3, atol=1e-4)
    other, _ = run(attack, tiny, edges, ball, seed=1)
    assert not torch.equal(other.images[attack.steps], whole.images[attack.steps])


@pytest.mark.parametrize("name", NAMES)
def test_finds_more_than_chance(name, tiny, edges) -> None:
    ball = BALLS[0]
    found, clean = run(make(name), tiny, edges, ball)
    with torch.no_grad():
        chance = (tiny(ball.sample(edges, Rng(9, ids=IDS))) - clean).norm(dim=1)
    assert (found.values[-1] > chance).double().mean() > 0.9


@pytest.mark.parametrize("name", NAMES)
def test_leaves_the_encoder_and_the_images_alone(name, tiny, edges) -> None:
    before, x = tiny.take_fingerprint(), edges.clone()
    run(make(name), tiny, edges, BALLS[0])
    assert tiny.take_fingerprint() == before
    assert torch.equal(x, edges)
    assert all(p.grad is None for p in tiny.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_readouts_out_of_range_are_refused(name, tiny, edges) -> None:
    attack = make(name)
    with pytest.raises(BadValue, match="read-outs"):
        run(attack, tiny, edges, BALLS[0], readouts=(attack.steps + 1,))


@pytest.mark.parametrize("name", NAMES)
def test_an_encoder_without_gradient_is_refused_or_attacked_without(name, edges) -> None:
    class Detached(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.detach().flatten(1)

    encoder, attack = Encoder(Detached(), mean=0, std=1), make(name)
    if isinstance(attack, Square):
        found, _ = run(attack, encoder, edges, BALLS[0])
        assert (found.values[-1] > 0).all()
    else:
        with pytest.raises(Unsupported, match="attack=square"):
            run(attack, encoder, edges, BALLS[0])


@pytest.mark.parametrize("name", NAMES)
def test_nan_is_an_error_not_a_number(name, edges) -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x.flatten(1) - 2).log()

    encoder = Encoder(Broken(), mean=0, std=1)
    with pytest.raises(NotFinite):
        run(make(name), encoder, edges, BALLS[0])


@pytest.mark.parametrize("name", NAMES)
def test_prefixes_of_a_trajectory_are_its_readouts(name, tiny, edges) -> None:
    attack = registry.find("attacks", name)(**({"steps": 8, "step_size": 0.01} if name in ("pgd", "bim") else {}))
    part = attack.truncate(3)
    assert attack.canonicalise_prefix() == part.canonicalise_prefix()
    if part == attack:
        return
    whole, _ = run(attack, tiny, edges, BALLS[0], readouts=(3, 8))
    short, _ = run(part, tiny, edges, BALLS[0])
    assert torch.equal(whole.images[3], short.images[3])


def brightness(x: Tensor) -> tuple[Tensor, Tensor]:
    """A goal that is linear: the worst image of every ball lies straight ahead, as far away as the steps can carry."""
    return x.flatten(1).sum(1), x.flatten(1)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("ball", BALLS, ids=lambda b: type(b).__name__)
@pytest.mark.parametrize("name", NAMES)
def test_what_crosses_the_ball_gets_to_its_edge_and_what_does_not_says_so(name, ball) -> None:
    cls, x = registry.find("attacks", name), torch.full((8, 1, 8, 8), 0.5)
    worst = ball.radius * ball.ascend(torch.ones_like(x)).flatten(1).sum(1)

    def gained(attack: Attack) -> Tensor:
        return (attack(brightness, x, ball, Rng(0, ids=IDS)).values[-1] - x.flatten(1).sum(1)) / worst

    assert cls().crosses(ball)
    if name not in ("square", "minimum_norm"):  # chance can go anywhere and need not; what breaks here is x already
        assert gained(cls()).min() > 0.95
    for weak in (cls(steps=10, step_size=ball.radius / 50) if name in ("pgd", "bim") else None,
                 cls(steps=10, rate=0.02) if name == "carlini_wagner" else None,
                 Ensemble((Pgd(10, ball.radius / 50),)) if name == "ensemble" else None):  # fmt: skip
        if weak is not None:
            assert weak.reach(ball) < 1
            assert not weak.crosses(ball)
            assert gained(weak).max() < 0.9


def test_an_attack_of_ones_own_says_nothing_of_its_reach_and_passes_for_one_that_crosses() -> None:
    class Mine(Attack):
        steps = 1
        passes = Passes()

        def __call__(self, goal, x, ball, rng, readouts=()):
            raise NotImplementedError

    assert all(Mine().reach(ball) == float("inf") and Mine().crosses(ball) for ball in BALLS)


@pytest.mark.parametrize("ball", BALLS, ids=lambda b: type(b).__name__)
def test_reach_is_a_share_of_the_longest_way(ball) -> None:
    step = ball.radius / 10
    assert Pgd(20, step).reach(ball) == pytest.approx(1)
    assert Pgd(20, step).crosses(ball)
    assert Pgd(20, step, start="nudge").reach(ball) == pytest.approx(2)
    assert Pgd(20, step, restarts=3).reach(ball, 5) == pytest.approx(0.25)
    assert Pgd(20).reach(ball) == pytest.approx(1.25)
    assert not Pgd(20).crosses(ball, 5)
    assert Ensemble((Pgd(5, step), Pgd(20, step))).reach(ball) == pytest.approx(1)


@pytest.mark.parametrize("ball", [ball for ball in BALLS if ball.is_box], ids=lambda ball: ball.norm)
def test_a_square_is_painted_as_its_signs_say(ball: Ball) -> None:
    x = torch.rand(8, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    top, left, (height, width) = ball.frame(x, Rng(0, ids=IDS))
    signs = rectangle(top, left, (height, width), (6, 6))[:, None] * torch.ones_like(x)
    by_signs, by_pixels = _Signs(x, ball, signs), _Pixels(x, ball, signs)
    colours = torch.tensor([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]]).repeat(4, 1)
    for side in (1, min(height, width)):
        images = [canvas.propose(top, left, side, colours) for canvas in (by_signs, by_pixels)]
        assert torch.equal(*images)
        assert not torch.equal(images[0], by_signs.image)


def test_picks_rows_as_a_choice_pixel_by_pixel_does() -> None:
    new, old = torch.rand(6, 3, 2), torch.rand(6, 3, 2)
    for better in (torch.arange(6) < count for count in range(7)):
        assert torch.equal(pick(better, new, old), torch.where(better[:, None, None], new, old))
