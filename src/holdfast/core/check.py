"""Checks: ways in which an audit could mislead, examined."""

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from holdfast.core.observation import Observation, Search
from holdfast.core.subject import Subject
from holdfast.runtime.checked import Checked


@dataclass(frozen=True)
class Verdict:
    """The outcome of a validity check: pass, warn, fail or skip, what was found, and what that means."""

    status: Literal["pass", "warn", "fail", "skip"]
    finding: str
    meaning: str
    details: dict[str, float] = field(default_factory=dict)


class Check(metaclass=Checked):
    """One way in which an audit could mislead, examined; a frozen dataclass.

    Attributes:
        consequence: what a number that depends on it is where it fails: "void", no number at all; "one side", a bound;
            "caution", what it was.
    """

    consequence: Literal["void", "one side", "caution"] = "caution"

    @property
    def search(self) -> Search | None:
        """The search that it examines; None where it is about more than one search."""
        return None

    def concerns(self, searches: Collection[Search]) -> bool:
        """Return whether a score that relies on some searches depends on this check."""
        return self.search is None or self.search in searches

    @abstractmethod
    def observations(self) -> tuple[Observation, ...]:
        """Return what must be observed first."""

    @abstractmethod
    def judge(self, subject: Subject) -> Verdict:
        """Return the verdict; passes that it makes itself are counted apart from those of observations."""
