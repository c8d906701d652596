"""Any quantity under any threat: a cell of the table of measures."""

from dataclasses import dataclass

from typing_extensions import override

from holdfast.core import Attack, Ball, Measure, Observation, Search, Subject, Table, Threat
from holdfast.core.quantity import Quantity
from holdfast.core.registry import part_name
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.measures.shared.worst import trajectories, worst
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.represented import Represented
from holdfast.parts.quantities.drift import Drift
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count

UNDER = " under "
"""Between a quantity and a threat."""


@dataclass(frozen=True)
class Under(Measure):
    """q(f(x'), f(x)) of a quantity q and x' = threat(x); the score is the statistic of q.

    In a ball x' is where an attack on drift ended; else one draw, or the one change.

    "nearest under jpeg[quality=30]" is this measure of the quantity `nearest` and the threat `jpeg`. What `list
    measures` has under a name of its own is a cell as well, with several threats at once, read-outs, or the worst that
    any search of the audit found.

    Table: the columns of the quantity, one row per disturbed image, or per image of the population.

    Attributes:
        what: the quantity.
        threat: what befalls the images; of a noise, one draw for each image.
        attack: how the worst case is searched, where the threat is a ball; it moves representations as far as it can.
        first: how many images; None: all that the audit attacks.
    """

    what: Quantity = Drift()
    threat: Threat = Linf(0.05)
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
        asked = self.what.question
        object.__setattr__(self, "question", f"{self._disturbance}: {asked[:1].lower()}{asked[1:]}")

    @property
    @override
    def label(self) -> str:
        # As it is written in commands
        return UNDER.join(map(part_name, (self.what, self.threat)))

    @property
    @override
    def title(self) -> str:
        return UNDER.join((self.what.title, self.threat.title))

    @property
    def column(self) -> str:
        """The quantity's values."""
        return f"{self.what.per_image}@{self._name}"

    @property
    def _name(self) -> str:
        """What the disturbance is called in the table and among the scores."""
        return self.attack.label(self.attack.steps) if isinstance(self.threat, Ball) else self.threat.title

    @property
    def _disturbance(self) -> str:
        ball = isinstance(self.threat, Ball)
        words = f"attacked by {part_name(self.attack)}, {self.threat.title}" if ball else self.threat.title
        return f"{words[:1].upper()}{words[1:]}"

    @property
    def trajectories(self) -> tuple[Attacked, ...]:
        """The attack's, where the threat is a ball: one, or one for each member of an ensemble."""
        if not isinstance(self.threat, Ball):
            return ()
        return trajectories(self.attack, self.threat, Untargeted(), (self.attack.steps,), self.first)

    @property
    def draw(self) -> Represented:
        """The disturbed images, where the threat is no ball."""
        return Represented(threat=self.threat, first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, and those of disturbed images."""
        return Clean(), *(self.trajectories or (self.draw,))

    @property
    def searches(self) -> tuple[Search, ...]:
        """The attack, as a whole where it is an ensemble; none where nothing is searched."""
        # What is drawn cannot have been searched too weakly
        return (Search(self.attack, self.threat, Untargeted()),) if isinstance(self.threat, Ball) else ()

    def pairs(self, images: int) -> int:
        """Return how many pairs of clean representations the quantity compares."""
        return self.what.pairs(images)

    def observe(self, subject: Subject) -> Table:
        """Return the quantity of every disturbed image."""
        # In a ball the worst that was found, where drift ended; else what befell the image
        if isinstance(self.threat, Ball):
            (moved,) = worst(subject, self.attack, self.trajectories).values()
        else:
            moved = subject.read(self.draw)["reps"].double()
        return self.what.observe(subject, subject.read(Clean())["reps"].double(), {self._name: moved})

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the quantity's statistic."""
        return {self._name: self.what.reduce(table, self._name)}
