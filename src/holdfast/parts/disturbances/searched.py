"""The worst image of a ball, as an attack finds it."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from holdfast.core import Attack, Ball, Search, Subject
from holdfast.core.disturbance import Disturbance
from holdfast.core.registry import part_name
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.shared.worst import trajectories, worst
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class Searched(Disturbance):
    """x' = argmax over the ball of ||f(x') - f(x)||, as an attack finds it.

    Attributes:
        ball: where x' lies.
        attack: how it is searched; it moves representations as far as it can, whatever is asked of them.
    """

    ball: Ball = Linf(0.05)
    attack: Attack = Apgd(50)

    @property
    def label(self) -> str:
        """The ball's name, which alone stands for this."""
        return part_name(self.ball)

    @property
    def title(self) -> str:
        """The ball."""
        return self.ball.title

    @property
    def name(self) -> str:
        """How long was searched, as the read-outs of other measures are called."""
        return self.attack.label(self.attack.steps)

    @property
    def clause(self) -> str:
        """Who searched, and where."""
        return f"attacked by {part_name(self.attack)}, {self.ball.title}"

    @property
    def searches(self) -> tuple[Search, ...]:
        """The attack, as a whole where it is an ensemble."""
        return (Search(self.attack, self.ball, Untargeted()),)

    def observations(self) -> tuple[Attacked, ...]:
        """Return the attack's trajectory, or one for each member of an ensemble."""
        return trajectories(self.attack, self.ball, Untargeted(), (self.attack.steps,), self.first)

    def represent(self, subject: Subject) -> Float[Tensor, "images dim"]:
        """Return where the attack ended."""
        # Read out once, at its end
        (reps,) = worst(subject, self.attack, self.observations()).values()
        return reps
