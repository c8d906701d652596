"""What the measures of probabilistic robustness have in common."""

import json
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Ball, Failure, Measure, Score, Subject, Table
from holdfast.core.chart import Row
from holdfast.core.registry import part_name, spec
from holdfast.numerics.statistics.statistic import Share, ShareOfDraws, Statistic
from holdfast.parts.estimators.counting import Counting
from holdfast.parts.estimators.precise import Precise
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.sampled import Sampled
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue


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
    first: Count | None = None

    condition: ClassVar[str] = ""
    better = "higher"
    unit = "share"

    def __post_init__(self) -> None:
        if self.among not in ("right", "all"):
            raise BadValue(f"{part_name(self)}: expected among = right or all, got {self.among!r}")

    @property
    def needs_labels(self) -> bool:
        """Whether what it observes reads labels."""
        return any(observation.needs_labels for observation in self.observations())

    @property
    def column(self) -> str:
        """The share of each image's draws that hold."""
        return "held"

    def row(self, name: str, place: tuple[int, ...], ball: Ball) -> Row:
        """Return its row among all measures with one failure and one ball, which theory orders: AR <= NPPR <= PR.

        Args:
            name: of the row.
            place: of the row, from the worst case to the mildest.
            ball: where the disturbances lie.
        """
        failure = spec(self.failure)  # with what it chooses by name: a divergence, a probe
        # What tells two failures of one name apart: divergence, probe, ...
        chosen = [v["name"] if isinstance(v, dict) else v for key, v in failure.items() if key not in ("kind", "name")]
        failure_words = " ".join([failure["name"], *(v for v in chosen if isinstance(v, str))]).replace("_", " ")
        # Rows with equal settings stand in one chart, as only these are ordered by theory
        setting = {"failure": self.failure, "ball": ball, "among": self.among, "first": self.first}
        return Row(
            heading="From the worst point to a given noise",
            short="noises",
            how_to_read=(
                "No noise in a ball does worse than the worst points of the ball, and no given noise does worse than "
                "the worst noise. So the marks of an encoder should move to the right from attacks to learned noises "
                "to given ones, at least as far as the lines, their intervals, can tell. Attacks and learners come "
                "near to the worst from above: where a mark lies clearly left of one further up, the search further up "
                "was too short."
            ),
            title=f"{failure_words}, {ball.title}",
            name=name.replace("_", " "),
            place=place,
            across="images or draws that hold",
            setting=tuple((key, json.dumps(spec(value))) for key, value in setting.items() if value is not None),
        )

    def exclude_wrong(self, held: Float[Tensor, "images"], wrong: Float[Tensor, "images"]) -> Float[Tensor, "images"]:
        """Return a column with images that fail without a disturbance left out, where they are to be."""
        return held if self.among == "all" else held.masked_fill(wrong == 1, torch.nan)

    def annotate(self, table: Table, statistic: Statistic, *words: str) -> Statistic:
        """Return a statistic that says what counts as a failure and how many images fail without a disturbance."""
        wrong = int(table["wrong"].sum())
        count = "left out" if self.among == "right" else "counted"
        excluded = f"{wrong} of {len(table['wrong'])} images fail without a disturbance, {count}" if wrong else ""

        def tell(score: Score) -> Score:
            # The general note about rows left out says less than the one made here
            notes = [n for n in score.note.split("; ") if not (excluded and n.endswith("undefined and left out"))]
            note = "; ".join(filter(None, [f"failure: {self.failure.title}", *words, excluded, *notes]))
            return replace(score, note=note)

        return statistic.restate(tell)


def outcomes(
    subject: Subject, drawn: Sampled, failure: Failure
) -> tuple[Int[Tensor, "images most"], Float[Tensor, "images"]]:
    """Return which draws of each image failed (-1: not drawn), and which images fail without a disturbance."""
    draws = subject.read(drawn)
    return draws[f"{failure}.failed"], draws[f"{failure}.wrong"]


@dataclass(frozen=True)
class DrawnMeasure(ChanceMeasure):
    """A measure that counts how many draws of a noise fail.

    Table, one row per image: `held`, the share of draws that hold; `low` and `high`, the ends of its own interval;
    `failed` of `drawn`; `wrong`, 1 where the image fails without a disturbance (`held` is then undefined, unless all
    are counted).

    Attributes:
        estimator: how many draws: `counting`, a fixed number, or `precise`, as many as a precision takes. Its stopping
            depends on what was drawn, which would bias a mean over images: `held` is then the share of the first 32.
    """

    estimator: Counting | Precise = Counting()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.estimator, (Counting, Precise)):
            raise BadValue(
                f"{part_name(self)}: expected the estimator counting or precise, got {part_name(self.estimator)}"
            )

    @property
    @abstractmethod
    def draws(self) -> Sampled:
        """The draws that it reads."""

    def observe(self, subject: Subject) -> Table:
        """Count the failures of every image."""
        outcome, wrong = outcomes(subject, self.draws, self.failure)
        # For the image's own interval all draws up to its answer count
        failed, drawn = self.estimator.count_until_stop(outcome)
        low, high = self.estimator.interval(failed, drawn)
        common = self.estimator.common
        # The first draws, which every image has: those drawn until an
        # answer was known would bias the mean
        held = self.exclude_wrong(1 - outcome[:, :common].double().sum(1) / common, wrong)
        # Intervals are of failing, columns of holding: the ends change places
        return {"held": held, "low": 1 - high, "high": 1 - low, "failed": failed, "drawn": drawn, "wrong": wrong}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return how many images never failed, and how many draws held."""
        held, draws = table["held"], table["drawn"]
        never = torch.where(held.isnan(), torch.nan, (table["failed"] == 0).double())
        words = f"{float(draws.double().mean()):,.0f} draws an image"
        # NPPR, Def. 4: the mean over images of the share of draws; both
        # sources of error are in the interval
        share = ShareOfDraws(held, condition=self.condition, draws=self.estimator.common)
        return {
            "images without a failure": self.annotate(table, Share(never), words),
            "draws that hold": self.annotate(table, share, words, *self.remarks()),
        }

    def remarks(self) -> tuple[str, ...]:
        """Return what else a reader of the headline must know."""
        return ()
