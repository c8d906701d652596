"""What the measures that read one attack trajectory have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from holdfast.core import AnyDivergence, Attack, Ball, Measure, Objective, Observation, Score, Search, Subject, Table
from holdfast.core.chart import Chart, Readouts
from holdfast.core.quantity import Quantity
from holdfast.core.registry import part_name
from holdfast.numerics.statistics.statistic import Mean, Median, PairMean, Share, Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.shared.worst import read_attacked_reps, trajectories, worst
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Conflict


def along_attack(attack: Attack, steps: tuple[int, ...]) -> tuple[Chart, ...]:
    """Return the chart of scores against attack steps; none where there is one read-out alone."""
    chart = Readouts(
        heading="Scores against attack steps",
        short="steps",
        how_to_read=(
            "How far one attack had got after so many of its steps. The points lie far apart, so a curve may still "
            "move at its end although the last steps changed little: the check “steps converged” says whether the "
            "attack had finished. Bands are intervals."
        ),
        scores=tuple(map(attack.label, steps)),
        at=steps,
        across="attack steps",
    )
    return (chart,) if len(steps) > 1 else ()


def beyond(attack: Attack, readouts: tuple[int, ...]) -> dict[str, str]:
    """Return the read-outs that an attack does not reach, and why."""
    return {f"read-out {step}": f"the attack makes {attack.steps} steps" for step in readouts if step > attack.steps}


@dataclass(frozen=True)
class AttackMeasure(Measure):
    """A measure that compares attacked with clean representations.

    A subclass fills a table with one column `per_image`@STEP for each read-out (and `pair`, where both directions of
    a pair are rows); the rest follows from its `statistic`: the mean, the median, the share of ones, or the mean over
    ordered pairs, whose second role is the column `intrudes`@STEP.

    Attributes:
        attack: how the worst case is searched.
        ball: where, in pixels of a [0, 1] image.
        objective: what the adversary maximises; each measure fixes whether it has a target, all else is free.
        divergence: how representations are compared afterwards; it need not be that of the objective.
        readouts: step counts of the attack at which the measure is reported; the last one is the headline, and those
            beyond the attack are left out. When empty, the measure's usual ones as far as the attack goes, and its last
            step.
    """

    attack: Attack = Apgd(50)
    ball: Ball = Linf(0.05)
    objective: Objective = Untargeted()
    divergence: AnyDivergence = L2()
    readouts: tuple[int, ...] = ()

    targeted: ClassVar[bool] = False
    usual: ClassVar[tuple[int, ...]] = ()
    per_image: ClassVar[str]
    statistic: ClassVar[Literal["mean", "median", "share", "pair mean"]]
    condition: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if isinstance(self.attack, Ensemble) and self.readouts:
            raise Conflict("an ensemble is read out when its members have finished; leave readouts empty")
        if min(self.readouts, default=0) < 0 or not self.steps:
            raise BadValue(
                f"{part_name(self)}: expected read-outs from 0 to {self.attack.steps} steps of the attack, got "
                f"{list(self.readouts)}"
            )
        objective, wanted = self.objective, "targeted" if self.targeted else "untargeted"
        # Whether there is a target decides what is measured: Eq. 1 or
        # Eq. 2; how it is pursued is free
        if objective.needs_target != self.targeted or objective.of_logits or objective.batchwise:
            raise BadValue(
                f"{type(self).__name__}: expected the objective {wanted}, or a loss of your own that is {wanted} "
                f"(holdfast.loss), got {type(objective).__name__}"
            )

    @property
    def steps(self) -> tuple[int, ...]:
        """The read-outs, in increasing order."""
        if self.readouts:
            return tuple(sorted(step for step in self.readouts if step <= self.attack.steps))
        return (*(step for step in self.usual if step < self.attack.steps), self.attack.steps)

    @property
    def misfits(self) -> Mapping[str, str]:
        """Read-outs that the attack does not reach."""
        return beyond(self.attack, self.readouts)

    @property
    def trajectories(self) -> tuple[Attacked, ...]:
        """The trajectories that this measure reads: one, or one for each member of an ensemble."""
        return trajectories(self.attack, self.ball, self.objective, self.steps)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations and the trajectories."""
        return Clean(), *self.trajectories

    @property
    def searches(self) -> tuple[Search, ...]:
        """The search, as a whole where it is that of an ensemble."""
        return (Search(self.attack, self.ball, self.objective),)

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the search; what is no read-out of the attack relies on none."""
        return self.searches[:1] if score in {self.attack.label(step) for step in self.steps} else ()

    @property
    def column(self) -> str:
        """`per_image` at the last read-out."""
        return f"{self.per_image}@{self.steps[-1]}"

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the `statistic` of `per_image` at every read-out, and before the attack where the table has it."""
        # What there was before the attack comes first; the last
        # read-out, which is the headline, last
        before = {"clean": self.reduce_column(table, "clean")} if "clean" in table else {}
        return before | {
            self.attack.label(step): self.reduce_column(table, f"{self.per_image}@{step}") for step in self.steps
        }

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return the score along the attack, and how `column` spreads over the images."""
        scored = tuple(step for step in self.steps if self.attack.label(step) in scores)  # a subclass may name others
        return *along_attack(self.attack, scored), *super().charts(table, scores)

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the `statistic` of a column."""
        # The two rows of a pair are one unit
        values, pair = table[column], table.get("pair")
        match self.statistic:
            case "mean":
                # A mean of shares cannot have an interval beyond 1
                return Mean(values, pair, self.condition, 1.0 if self.unit == "share" else None)
            case "median":
                return Median(values, pair, self.condition)
            case "share":
                return Share(values, pair, self.condition)
            case "pair mean":
                # Ordered pairs (x, x') share images, in both roles; the interval knows both
                return PairMean(values, table[column.replace(self.per_image, "intrudes")])

    @staticmethod
    def _ask(
        quantity: Quantity,
        subject: Subject,
        clean: Float[Tensor, "population dim"],
        attacked: Mapping[int, Float[Tensor, "attacked dim"]],
    ) -> Table:
        """Return the columns of a quantity at every read-out."""
        # A quantity knows disturbances by their names; here these are read-outs
        return quantity.observe(subject, clean, {str(step): reps for step, reps in attacked.items()})

    def reps(
        self, subject: Subject
    ) -> tuple[Float[Tensor, "population dim"], dict[int, Float[Tensor, "attacked dim"]]]:
        """Return the clean representations and the attacked ones at every read-out, in float64; see `worst`."""
        return Clean.of(subject).double(), worst(subject, self.attack, self.trajectories)

    def read_reps(
        self, subject: Subject
    ) -> tuple[Float[Tensor, "population dim"], dict[int, Float[Tensor, "attacked dim"]]]:
        """Return the same as they were observed, in float32: for what goes through them row by row."""
        return Clean.of(subject), read_attacked_reps(subject, self.attack, self.trajectories)
