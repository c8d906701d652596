"""The ensemble: several attacks on the same images, the strongest result of each image reported."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from holdfast.core import Attack, Ball, Goal, Images, Passes, Rng, Trajectory
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.shared.readout import check_readouts
from holdfast.parts.attacks.square import Square
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Ensemble(Attack):
    """max over members of goal(x'_member), per image: for representations what AutoAttack is for classifiers.

    Members that fail in different ways (a tuned and a parameter-free gradient attack, a gradient-free one) make the
    result reliable without choosing an attack for each encoder. Members draw what they would draw alone, so the
    ensemble is at least as strong as each of them, and an audit runs a member that another measure needs only once.
    The trajectory has two read-outs: 0, the strongest
    start, and `steps`, the strongest result; `winner` says which member found it.

    Attributes:
        members: the attacks.

    Source: after Croce & Hein (2020a), AutoAttack; the objectives are those of representation space.

    Example:
        >>> from holdfast.parts.threats.linf import Linf
        >>> goal = lambda x: (x.mean((1, 2, 3)), x.flatten(1))  # value to raise, representations
        >>> x = torch.full((1, 1, 2, 2), 0.5)
        >>> attacked = Ensemble((Apgd(10), Square(20)))(goal, x, Linf(0.1), Rng(0, ids=("a",)))
        >>> round(attacked.values[-1].item(), 3)
        0.6
    """

    members: tuple[Attack, ...] = (Apgd(50), Pgd(50), Square(200))  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        if not self.members or not all(isinstance(member, Attack) for member in self.members):
            raise BadValue(f"ensemble: expected one attack or more, got {self.members!r}")

    @property
    def steps(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One: the ensemble is read out when all its members have finished."""
        return 1

    def label(self, step: int) -> str:
        """Return "strongest" for the result, "strongest start" for read-out 0."""
        return "strongest" if step else "strongest start"

    def reach(self, ball: Ball, steps: int | None = None) -> float:
        """Return that of the member that reaches furthest: what it reports is never weaker than that member's."""
        return max(member.reach(ball) for member in self.members) if steps is None or steps else 0.0

    @property
    def passes(self) -> Passes:
        """The sum of its members'."""
        return sum((member.passes for member in self.members), Passes())

    def passes_in(self, ball: Ball) -> Passes:
        """The sum of its members'."""
        return sum((member.passes_in(ball) for member in self.members), Passes())

    def at_places(self, goal: Goal, x: Images, ball: Ball, rng: Rng, count: int = 1) -> list[Ball]:
        """Return the whole ball: its members choose places of their own, as they would alone."""
        return [ball]

    def __call__(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readouts: Sequence[int] = ()) -> Trajectory:
        """Attack a batch with every member, see `Attack`."""
        read_at = check_readouts(readouts, self.steps)
        best: Trajectory | None = None
        for number, member in enumerate(self.members):
            counts = [member.steps if step else 0 for step in read_at]
            trajectory = member(goal, x, ball, rng, counts)
            # the member's start and end, as read-outs 0 and 1 of the ensemble
            ends = Trajectory(
                {step: trajectory.images[count] for step, count in zip(read_at, counts, strict=True)},
                {step: trajectory.reps[count] for step, count in zip(read_at, counts, strict=True)},
                torch.stack([trajectory.values[0], trajectory.values[-1]]),
                torch.full((len(x),), number, device=x.device),
            )
            best = ends if best is None else best.stronger(ends)
        assert best is not None  # __post_init__ has checked
        return best
