"""Checks: ways in which an audit could mislead, examined."""

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from holdfast.core.encoder import Passes
from holdfast.core.measure import Measure
from holdfast.core.observation import Reader, Scope, Search
from holdfast.core.subject import Subject


@dataclass(frozen=True)
class Verdict:
    """The outcome of a validity check: pass, warn, fail or skip, what was found, and what that means.

    Attributes:
        called: what the encoder is then called before all else that is said of it, such as "Collapsed"; "" for most.
        doubt: what it casts on numbers, where that is more than the `doubt` of every such check.
    """

    status: Literal["pass", "warn", "fail", "skip"]
    finding: str
    meaning: str
    details: dict[str, float] = field(default_factory=dict)
    called: str = ""
    doubt: str = ""


@dataclass(frozen=True)
class Examination:
    """What there is to examine in an audit: its questions, and how thoroughly.

    Attributes:
        measures: the questions.
        images: how many images, the first ones, checks look at where that costs passes.
        queries: budget of an attack without gradients.
        precision: of searches, see `Encoder.prepare`.
    """

    measures: tuple[Measure, ...]
    images: int
    queries: int
    precision: str = "float32"

    @property
    def searches(self) -> tuple[Search, ...]:
        """The searches that any score may rely on, each once."""
        # Each once, in the order in which measures name them
        return tuple(dict.fromkeys(search for measure in self.measures for search in measure.searches))

    @property
    def reads_images(self) -> bool:
        """Whether any measure reads the audit's images, and not synthetic ones alone."""
        return any(
            observation.scope is not Scope.SYNTHETIC
            for measure in self.measures
            for observation in measure.prerequisites()
        )


class Check(Reader):
    """One way in which an audit could mislead, examined; a frozen dataclass.

    Attributes:
        consequence: what a number that depends on it is where it fails: "void", no number at all; "one side", a bound;
            "no winner", what it was, but nobody is called best by it, where it warns, too; "caution", what it was. Who
            is `called` something is not called best either.
        lasts: whether its verdict follows from its observations and the population alone: it is then kept, so that
            passes of its own are not made again in another round, or by another command.
        invariant: which changes of the representation change none of its numbers, see `numerics.geometry.invariance`;
            None: what it compares by says so.
        doubt: what it casts on numbers where it does not pass, in a few words such as "weak attack"; "" for its title.
        place: where it stands in the panel, the lowest first. Checks with the same tens stand together for each search.
    """

    consequence: Literal["void", "one side", "no winner", "caution"] = "caution"
    invariant: ClassVar[frozenset[str] | None] = None
    lasts: ClassVar[bool] = False
    doubt: ClassVar[str] = ""
    place: ClassVar[int] = 40

    @classmethod
    def checks_for(cls, audit: Examination) -> "tuple[Check, ...]":
        """Return the checks of this kind that belong to an audit: one, where images are read, unless it says more."""
        return (cls(),) if audit.reads_images else ()

    @property
    def search(self) -> Search | None:
        """The search that it examines; None where it is about more than one search."""
        return None

    def concerns(self, searches: Collection[Search]) -> bool:
        """Return whether a score that relies on some searches depends on this check."""
        return self.search is None or self.search in searches

    def own_passes(self, population: int, attacked: int) -> Passes:
        """Return about how many passes `judge` makes beside those of its observations, on an audit of so many images.

        Of one draw, for an encoder that is the mean over several.
        """
        return Passes()

    @abstractmethod
    def judge(self, subject: Subject) -> Verdict:
        """Return the verdict; passes that it makes itself are counted apart from those of observations."""
