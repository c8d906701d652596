"""Any quantity under any threat: a cell of the table of measures."""

from dataclasses import dataclass, replace

from typing_extensions import override

from holdfast.core import Attack, Ball, Measure, Observation, Search, Subject, Table, Threat
from holdfast.core.disturbance import Disturbance
from holdfast.core.quantity import Quantity
from holdfast.core.registry import part_name
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.disturbances.drawn import Drawn
from holdfast.parts.disturbances.searched import Searched
from holdfast.parts.observations.clean import Clean
from holdfast.parts.quantities.drift import Drift
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count

UNDER = " under "
"""Between a quantity and a threat."""


@dataclass(frozen=True)
class Under(Measure):
    """q(f(x'), f(x)) of a quantity q and x' = threat(x); the score is the statistic of q.

    In a ball x' is where an attack on drift ended; else one draw, or the one change. In the place of a threat may stand
    a disturbance: a noise or a perturbation that is learned first, an attack on another encoder.

    "nearest under jpeg[quality=30]" is this measure of the quantity `nearest` and the threat `jpeg`. What `list
    measures` has under a name of its own is a cell as well, with several threats at once, read-outs, or the worst that
    any search of the audit found.

    Table: the columns of the quantity, one row per disturbed image, or per image of the population.

    Attributes:
        what: the quantity.
        threat: what befalls the images; of a noise, one draw for each image.
        attack: how the worst case is searched, where the threat is a ball; it moves representations as far as it can.
        first: how many images; None: all that the audit attacks, or as many as a disturbance says.
    """

    what: Quantity = Drift()
    threat: Threat | Disturbance = Linf(0.05)
    attack: Attack = Apgd(50)
    first: Count | None = None

    better = "lower"
    unit = "share"
    question = "What becomes of a quantity under a threat?"
    how_to_read = "As the quantity is read."
    reference = "that of the quantity"

    def __post_init__(self) -> None:
        # The words and the direction are the quantity's, of each object and not of the class
        for name in ("better", "unit", "how_to_read", "reference"):
            object.__setattr__(self, name, getattr(self.what, name))
        befell, asked = self.disturbance.clause, self.what.question
        first = befell[:1].upper() if befell[:1].isascii() else befell[:1]  # γ stays what it is
        object.__setattr__(self, "question", f"{first}{befell[1:]}: {asked[:1].lower()}{asked[1:]}")

    @property
    def disturbance(self) -> Disturbance:
        """What befalls the images: the worst case of a ball, what another threat does, or what stands there."""
        if isinstance(self.threat, Disturbance):
            return self.threat if self.first is None else replace(self.threat, first=self.first)
        # A ball has a worst case, which must be searched; all else happens by itself
        if isinstance(self.threat, Ball):
            return Searched(self.first, self.threat, self.attack)
        return Drawn(self.first, self.threat)

    @property
    @override
    def label(self) -> str:
        # As it is written in commands
        return f"{part_name(self.what)}{UNDER}{self.disturbance.label}"

    @property
    @override
    def title(self) -> str:
        return UNDER.join((self.what.title, self.disturbance.title))

    @property
    def column(self) -> str:
        """The quantity's values."""
        return f"{self.what.per_image}@{self.disturbance.name}"

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, those of disturbed images, and what the quantity reads beside them."""
        # Twins that share a disturbance share its passes
        return Clean(), *self.disturbance.observations(), *self.what.observations()

    @property
    def needs_labels(self) -> bool:
        """Whether the quantity reads labels."""
        return self.what.needs_labels

    @property
    def searches(self) -> tuple[Search, ...]:
        """Those of the disturbance."""
        # What is drawn cannot have been searched too weakly
        return self.disturbance.searches

    def pairs(self, images: int) -> int:
        """Return how many pairs of clean representations the quantity compares."""
        return self.what.pairs(images)

    def observe(self, subject: Subject) -> Table:
        """Return the quantity of every disturbed image."""
        # Whatever befell the images, the quantity sees how they are represented then
        moved = {self.disturbance.name: self.disturbance.represent(subject)}
        return self.what.observe(subject, Clean.of(subject).double(), moved)

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the quantity's statistic."""
        name, note = self.disturbance.name, self.disturbance.note
        statistic = self.what.reduce(table, name)
        if note:
            statistic = statistic.restate(
                lambda score: replace(score, note="; ".join(filter(None, (score.note, note))))
            )
        return {name: statistic}
