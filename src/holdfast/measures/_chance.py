"""What the measures of probabilistic robustness have in common."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast import statistics
from holdfast.core import Failure, HoldfastError, Measure, Score, Subject, Table
from holdfast.estimators.counting import Counting
from holdfast.failures.nearest import Nearest
from holdfast.observations.sampled import Sampled
from holdfast.registry import part_name

NPPR = "Non-Parametric Probabilistic Robustness"


@dataclass(frozen=True)
class ChanceMeasure(Measure):
    """A measure of how often images hold, by what counts as a failure: AR <= NPPR <= PR where these are the same.

    Attributes:
        failure: what counts as a failure, with labels or without.
        among: "right", to leave out images that fail without a disturbance (the paper's numbers), or "all", to count
            them: by their draws, and as broken by an attack.
        first: only the first images; None: all that the audit attacks.
    """

    failure: Failure = Nearest()
    among: str = "right"
    first: int | None = None

    given: ClassVar[str] = ""
    better = "higher"
    unit = "share"

    def __post_init__(self) -> None:
        if self.among not in ("right", "all"):
            raise HoldfastError(f"{part_name(self)}: expected among = right or all, got {self.among!r}")

    @property
    def needs_labels(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the failure reads labels."""
        return self.failure.needs_labels

    @property
    def column(self) -> str:
        """The share of each image's draws that hold."""
        return "held"

    def influence(self, table: Table) -> Float[Tensor, "units"]:
        """Return the influence of each image on the mean."""
        return statistics.influence_of_mean(table[self.column])

    def kept(self, held: Float[Tensor, "images"], wrong: Float[Tensor, "images"]) -> Float[Tensor, "images"]:
        """Return a column with images that fail without a disturbance left out, where they are to be."""
        return held if self.among == "all" else held.masked_fill(wrong == 1, torch.nan)

    def told(self, table: Table, score: Score, *words: str) -> Score:
        """Return a score that says what counts as a failure and how many images fail without a disturbance."""
        wrong = int(table["wrong"].sum())
        count = "left out" if self.among == "right" else "counted"
        said = f"{wrong} of {len(table['wrong'])} images fail without a disturbance, {count}" if wrong else ""
        note = "" if wrong and self.among == "right" else score.note
        return replace(score, note="; ".join(filter(None, [f"failure: {self.failure.title}", *words, said, note])))


def outcomes(
    subject: Subject, drawn: Sampled, failure: Failure
) -> tuple[Int[Tensor, "images most"], Float[Tensor, "images"]]:
    """Return which draws of each image failed (-1: not drawn), and which images fail without a disturbance."""
    seen = subject.read(drawn)
    return seen[f"{failure}.failed"], seen[f"{failure}.wrong"]


@dataclass(frozen=True)
class DrawnMeasure(ChanceMeasure):
    """A measure that counts how many draws of a noise fail, a fixed number for each image.

    Table, one row per image: `held`, 1 - k/n; `low` and `high`, its exact binomial 95 % interval; `failed`, k; `drawn`,
    n; `wrong`, 1 where the image fails without a disturbance (`held` is then undefined, unless all are counted).

    Attributes:
        estimator: how many draws.
    """

    estimator: Counting = Counting()

    @property
    def drawn(self) -> Sampled:
        """The draws that it reads."""
        raise NotImplementedError

    def observe(self, subject: Subject) -> Table:
        """Count the failures of every image."""
        failed, wrong = outcomes(subject, self.drawn, self.failure)
        draws = self.estimator.most
        k = failed[:, :draws].long().sum(1)
        ends = {int(n): statistics.clopper_pearson(draws - int(n), draws) for n in k.unique()}
        low, high = torch.tensor([ends[n] for n in k.tolist()], dtype=torch.float64).view(-1, 2).unbind(1)
        return {
            "held": self.kept(1 - k.double() / draws, wrong),
            "low": low,
            "high": high,
            "failed": k,
            "drawn": torch.full_like(k, draws),
            "wrong": wrong,
        }

    def score(self, table: Table) -> dict[str, Score]:
        """Return how many images never failed, and how many draws held."""
        held = table["held"]
        never = torch.where(held.isnan(), torch.nan, (held == 1).double())
        draws = self.estimator.most
        return {
            "images without a failure": self.told(table, statistics.share(never, given=f"in {draws} draws each")),
            "draws that hold": self.told(table, statistics.share_of_draws(held, draws, self.given), *self.remarks()),
        }

    def remarks(self) -> tuple[str, ...]:
        """Return what else a reader of the headline must know."""
        return ()
