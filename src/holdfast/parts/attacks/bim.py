"""The basic iterative method: projected gradient descent that starts at the image itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

from holdfast.core import Attack, Ball, Goal, Images, Passes, Rng, Trajectory
from holdfast.parts.attacks.pgd import Pgd
from holdfast.runtime.checked import Count, Positive


@dataclass(frozen=True)
class Bim(Attack):
    """PGD from x, whose first gradient is taken at x + η: U-BIM, and L-BIM with a loss.

    Attributes:
        steps: number of steps.
        step_size: α in pixels; None: 2.5 · ε / steps.

    Source: Kurakin et al. (2017); Petrov & Kwiatkowska (2022), section 4.2.

    Example:
        >>> from holdfast.parts.threats.linf import Linf
        >>> goal = lambda x: (x.mean((1, 2, 3)), x.flatten(1))  # value to raise, representations
        >>> x = torch.full((1, 1, 2, 2), 0.5)
        >>> attacked = Bim(10)(goal, x, Linf(0.1), Rng(0, ids=("a",)))
        >>> round(attacked.values[-1].item(), 3)
        0.6
    """

    steps: Count = 10
    step_size: Positive | None = None

    @property
    def _pgd(self) -> Pgd:
        return Pgd(self.steps, self.step_size, start="nudge")

    def canonicalise_prefix(self) -> Attack:
        """As `Pgd`."""
        return replace(self, steps=self._pgd.canonicalise_prefix().steps)

    def truncate(self, steps: int) -> Attack:
        """As `Pgd`."""
        return replace(self, steps=self._pgd.truncate(steps).steps)

    def reach(self, ball: Ball, steps: int | None = None) -> float:
        """As `Pgd`."""
        return self._pgd.reach(ball, steps)

    trial = Pgd.trial

    @property
    def passes(self) -> Passes:
        """As `Pgd`."""
        return self._pgd.passes

    @override
    def __call__(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readouts: Sequence[int] = ()) -> Trajectory:
        return self._pgd(goal, x, ball, rng, readouts)
