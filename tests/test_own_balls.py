"""Balls and attacks of a user's own: what leaves the ball is refused, not reported."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import holdfast
from holdfast.core import Attack, Ball, Passes, Rng, Trajectory
from holdfast.core.own_ball import require_one_ball
from holdfast.extend import register
from holdfast.parts.attacks.fgsm import Fgsm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.uniform import Uniform
from holdfast.runtime.errors import Failed, Unsupported

SHAPE = (1, 8, 8)

pytestmark = pytest.mark.usefixtures("own_parts_forgotten")


def band(*methods: str, of: type[Ball] = Linf) -> type[Ball]:
    """Return a ball in which three columns may change, of which only some methods know."""

    def keep(delta: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(delta[..., :2]), delta[..., 2:5], torch.zeros_like(delta[..., 5:])], -1)

    class Band(of):  # pyright: ignore[reportGeneralTypeIssues]
        width: int = 3

        if "project" in methods:

            def project(self, delta):
                return super().project(keep(delta))

        if "ascend" in methods:

            def ascend(self, gradient):
                return super().ascend(keep(gradient))

        if "squash" in methods:

            def squash(self, u):
                return super().squash(keep(u))

        if "box" in methods:

            def box(self, x, radii):
                low, high = super().box(x, radii)
                inside = keep(torch.ones_like(x)) > 0
                return torch.where(inside, low, x), torch.where(inside, high, x)

        if "narrow box" in methods:

            def box(self, x, radii):
                return super().box(x, radii / 2)

        if "steep least" in methods:

            def least(self, slopes, x, box, radii):
                return super().least(slopes, x, box, radii / 2) + 1

        if "large size" in methods:

            def size(self, delta):
                return 2 * super().size(delta)

    Band.__annotations__ = {"width": int}
    return register("threats")(dataclass(frozen=True)(Band))


ALL = ("project", "ascend", "squash", "box")


@pytest.mark.parametrize("of", [Linf, L2])
def test_a_ball_whose_methods_agree_is_taken(of: type[Ball]) -> None:
    require_one_ball(band(*ALL, of=of)(0.5), SHAPE)
    require_one_ball(band(*ALL[:3], of=of)(0.5), SHAPE)  # a box that holds more is only looser


@pytest.mark.parametrize(
    ("methods", "which"),
    [
        (("project", "ascend"), "`squash` leaves what `project` keeps to"),
        (("project", "squash"), "`ascend` leaves what `project` keeps to"),
        (("ascend", "squash", "box"), "`box` leaves out images"),
        (("narrow box",), "`box` leaves out images"),
        (("steep least",), "`least` is above what images"),
        (("large size",), "`size` calls a change by `project` 0.6"),
    ],
)
def test_a_ball_whose_methods_disagree_is_refused(methods, which) -> None:
    kind = band(*methods)
    with pytest.raises(Failed) as error:
        require_one_ball(kind(0.3), SHAPE)
    assert which in str(error.value)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("measure", ["breakaway_risk", "certified_breakaway_risk", "breaking_radius"])
def test_an_audit_in_such_a_ball_has_no_number(measure: str, tiny) -> None:
    band("project", "ascend")
    images = torch.rand(6, *SHAPE, generator=torch.Generator().manual_seed(0))
    record = holdfast.audit(tiny, images, measures=f"{measure}[ball=band[radius=0.3]]", attacked=2, quiet=True)
    with pytest.raises(Failed):  # there is no score
        record[measure]
    assert any("expected all of its methods to mean one ball" in line for line in record.failures)


def test_noise_of_the_whole_ball_is_not_drawn_in_a_part_of_it() -> None:
    with pytest.raises(Unsupported) as error:
        Uniform(band(*ALL)(0.3)).sample(torch.rand(2, *SHAPE), Rng(0, ids=("a", "b")))
    assert "expected linf or l2, got Band" in str(error.value)


def test_one_ball_contains_another_only_where_nothing_but_the_radius_differs() -> None:
    kind = band(*ALL)
    assert kind(0.3).contains(kind(0.2))
    assert not kind(0.3).contains(kind(0.4))
    assert not kind(0.3, width=3).contains(kind(0.2, width=4))


def test_a_ball_says_how_many_pixels_may_change() -> None:
    assert Linf(8 / 255).in_words(SHAPE) == "every pixel may change by up to 8/255"
    assert band(*ALL)(8 / 255).in_words(SHAPE) == "24 of 8 x 8 pixels may change by up to 8/255"


def test_an_attack_that_leaves_the_ball_is_refused(tiny) -> None:
    @register("attacks")
    @dataclass(frozen=True)
    class Bold(Attack):
        """Goes twice as far."""

        steps: int = 1

        @property
        def passes(self) -> Passes:
            return Passes(forward=1)

        def __call__(self, goal, x, ball, rng, readouts=()) -> Trajectory:
            found = Pgd(1)(goal, x, ball, rng)
            return Trajectory({1: (x + 2 * ball.radius).clamp(0, 1)}, found.reps, found.values)

    with pytest.raises(Failed) as error:
        Bold()(
            lambda at: (at.mean((1, 2, 3)), tiny(at)), torch.full((2, *SHAPE), 0.5), Linf(0.1), Rng(0, ids=("a", "b"))
        )
    assert "expected images inside the ball ℓ∞ ≤ 0.1 and [0, 1], got some that are outside by up to 0.1;" in str(error)


@pytest.mark.parametrize("attack", [Pgd(2, keep="last"), Fgsm()], ids=["pgd", "fgsm"])
def test_attacks_of_training_try_the_ball_too(attack: Attack, tiny) -> None:
    kind = band("project", "ascend")

    def goal(at: Tensor) -> tuple[Tensor, Tensor]:
        return at.mean((1, 2, 3)), tiny(at)

    with pytest.raises(Failed) as error:
        attack.worst(goal, torch.full((2, *SHAPE), 0.5), kind(0.1), Rng(0, ids=("a", "b")))
    assert "`squash` leaves" in str(error.value)
