"""SynBench score: how well an encoder keeps two Gaussian classes apart, by synthetic images alone."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from typing_extensions import override

from holdfast.core import Measure, Observation, Score, Subject, Table
from holdfast.core.chart import Cells, Chart, Curves, Line, Readouts, numbers
from holdfast.numerics.gaussian_classes import synbench
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.numerics.statistics.statistic import Fixed, Statistic
from holdfast.parts.observations.mixtures import Mixtures
from holdfast.runtime.errors import BadValue, unknown

HEADING = "SynBench"
HOW_TO_READ = (
    "Two classes of Gaussian images are drawn, nearer and farther apart. From their representations comes the "
    "linear classifier that does best where ε is to be withstood; its expected bound is compared with the best "
    "there is for the images themselves. The area under a line, right of the dotted mark, divided by that under "
    "the dashed line, is the score: 1 where nothing is lost of the trade-off between accuracy and robustness; "
    "shaded is what ε 0 loses. Near one half, where bounds grow as accuracy falls, a line may pass above the "
    "dashed one. The ε where the score is largest is the one that robust probing may use."
)
KINDS = ("right", "accuracy", "bound", "reference accuracy", "reference bound")


@dataclass(frozen=True)
class Synbench(Measure):
    """∫_{a > a_t} E(a) da of the representations / that of the images, E(a) = E_s E[bound | right] 1[accuracy > a].

    Two classes of noise images, a distance 2s apart, are represented; the ε-robust Bayes classifiers that are fitted to
    one half of the representations are tested on the other half. Their accuracy, and how far those that are right lie
    from the boundary, are compared with what the images themselves allow.

    Table, one row for each direction, s and half that was tested: `s`, `direction`, `half`; for each ε `right@ε`,
    `accuracy@ε`, `bound@ε`, `reference accuracy@ε`, `reference bound@ε`; `kept`, the area above the headline's a_t
    for its ε, in units of the mean area of the reference, so that its mean is the headline.

    Attributes:
        mixtures: which images are drawn, and which ε.
        starts: threshold accuracies a_t from which areas count, each in [.5, 1), beside `start`.
        start: the a_t of the headline and of the best ε.
        over: what intervals allow to be drawn otherwise: "samples and s", or "samples" for this grid of s alone.
    """

    invariant = EVERY

    mixtures: Mixtures = Mixtures()
    starts: tuple[float, ...] = (0.6, 0.7, 0.8, 0.9)
    start: float = 0.7
    over: str = synbench.OVER[0]

    better = "higher"
    in_brief = True
    unit = "ratio"
    question = "How much of the separation between two synthetic Gaussian classes does the representation keep?"
    how_to_read = (
        "1 means that a linear classifier on the representation is as accurate as the best one on the images, with as "
        "large a margin; 0 means that its accuracy never exceeds a_t. No data are needed: the images are noise, and "
        "many values lie outside [0, 1] unless they are clamped, so a low score does not have to mean a bad encoder of "
        "photographs. ε sets how robust the classifier is made: a share of half the distance between the classes in "
        "representation space (budget relative) or a length there (absolute, which depends on the scale of the "
        "representation); it is not a radius in pixels. Near a_t = 0.5 weak classifiers have large bounds and may "
        "exceed the reference. The best ε is a suggestion for robust linear probing. The score rises with the number "
        "of images that the classifiers are fitted to."
    )
    reference = "Ko et al. (2022), Eq. 3"

    @property
    @override
    def title(self) -> str:
        return "SynBench"

    def __post_init__(self) -> None:
        if not isinstance(self.mixtures, Mixtures):
            raise BadValue(f"synbench: mixtures: expected the observation mixtures, got {self.mixtures!r}")
        if self.over not in synbench.OVER:
            raise unknown("over of synbench", self.over, synbench.OVER)
        if not all(0.5 <= start < 1 for start in (*self.starts, self.start)):
            raise BadValue(
                f"synbench: starts, start: expected threshold accuracies in [0.5, 1), got {self.starts}, {self.start}"
            )
        for name, values in (("starts", self.starts), ("epsilons of mixtures", self.mixtures.epsilons)):
            if len({f"{value:g}" for value in values}) < len(values):
                raise BadValue(f"synbench: {name}: expected numbers that differ in six digits, got {values}")

    @property
    def column(self) -> str:
        """Each classifier's area, of which the headline is the mean."""
        return "kept"

    @property
    def headline(self) -> str:
        """The name of the last score: at `start`, with the first ε."""
        return _name_score(self.start, self.mixtures.epsilons[0])

    def observations(self) -> tuple[Observation, ...]:
        """Classifiers of synthetic images, tested; before them what the images are to be like, where that is asked."""
        return *self.mixtures.reads, self.mixtures

    def observe(self, subject: Subject) -> Table:
        """Return what became of every classifier; both halves of a direction and an s follow each other."""
        observed = subject.read(self.mixtures)
        rows, halves = len(observed["s"]), self.mixtures.halves
        table: Table = {
            "s": observed["s"].repeat_interleave(halves),
            "direction": observed["direction"].repeat_interleave(halves),
            "half": torch.arange(halves).repeat(rows),
        }
        # Observed tensors are [rows, H, ε], or [rows, ε] of the reference, which has no halves
        for number, epsilon in enumerate(self.mixtures.epsilons):
            for kind in KINDS:
                values = observed[kind.replace(" ", "_")][..., number]
                both = values.flatten() if values.dim() == 2 else values.repeat_interleave(halves)
                table[f"{kind}@{epsilon:g}"] = both.double()
        # SynBench, Eq. 3, is a quotient of sums: each classifier's area over
        # the mean area of the reference
        first = self._trade_off(table, self.mixtures.epsilons[0])
        return table | {"kept": (first.normalise_areas(self.start) * len(table["s"]) / halves).flatten()}

    def rows(self, table: Table) -> list[str]:
        """Return which direction, s and half each row is about."""
        several = self.mixtures.directions > 1
        columns = zip(table["direction"].tolist(), table["s"].tolist(), table["half"].tolist(), strict=True)
        return [(f"direction {d + 1}, " if several else "") + f"s {s:g}, half {half + 1}" for d, s, half in columns]

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the score at each a_t for each ε, the best ε, and the headline."""
        trade_offs = {epsilon: self._trade_off(table, epsilon) for epsilon in self.mixtures.epsilons}
        # Eq. 3 for every a_t and ε; the headline is taken out, to come last
        kept: dict[str, Statistic] = {
            _name_score(start, epsilon): synbench.AreaKept(trade_off, start, self.over)
            for start in self._starts
            for epsilon, trade_off in trade_offs.items()
        }
        kept.pop(self.headline, None)
        headline = synbench.AreaKept(trade_offs[self.mixtures.epsilons[0]], self.start, self.over)
        # arg max over ε, as in Table 3: which one it is moves with no single row
        best = synbench.best(list(trade_offs.items()), self.start, self.over)
        return kept | {"best ε": Fixed(best).say(better="neither"), self.headline: headline}

    @property
    def _starts(self) -> list[float]:
        return sorted({*self.starts, self.start})

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return the scores against ε, the expected bounds behind them, and all scores as a table."""
        # SynBench score at the headline's a_t against ε
        epsilons = self.mixtures.epsilons
        relative = self.mixtures.budget == "relative"
        against = Readouts(
            heading=HEADING,
            how_to_read=HOW_TO_READ,
            title=f"Score against ε, a_t {self.start:g}",
            scores=tuple(_name_score(self.start, epsilon) for epsilon in epsilons),
            at=epsilons,
            across="ε, " + ("as a share of half the distance between the classes" if relative else "in units of "
                            "representations"),
            choice="best ε",
        )  # fmt: skip
        # all scores: a_t down, ε across
        cells = Cells(
            heading=HEADING,
            how_to_read=HOW_TO_READ,
            rows=tuple(f"{start:g}" for start in self._starts),
            columns=tuple(f"ε {epsilon:g}" for epsilon in epsilons),
            scores=tuple(tuple(_name_score(start, epsilon) for epsilon in epsilons) for start in self._starts),
            corner="a_t",
            note=self.mixtures.description,
        )
        return against, self._bounds(table), cells

    def _bounds(self, table: Table) -> Chart:
        """Return E(a) for every ε, dashed what is possible, which is one line where all ε have the same."""
        # Eq. 2 as a function of a_t, from chance to 1
        points = synbench.thresholds(0.5)
        own, ideal = (
            torch.stack([
                synbench.curve(table[f"{kind}accuracy@{e:g}"], table[f"{kind}bound@{e:g}"], points)
                for e in self.mixtures.epsilons
            ])
            for kind in ("", "reference ")
        )  # fmt: skip
        # With Σ = I the best classifiers are the same for every ε, and so are their curves
        several = not torch.allclose(ideal, ideal[:1], rtol=1e-9, atol=1e-9)
        # shade what the smallest ε leaves open, where it counts
        counts = torch.where(points >= self.start - 1e-9, 1.0, torch.nan)
        low, high = numbers(own[0] * counts), numbers(ideal[0] * counts)
        x = tuple(points.tolist())
        lines = [Line(x, numbers(own[0]), low, high, f"ε {self.mixtures.epsilons[0]:g}")]
        lines += [
            Line(x, numbers(values), name=f"{epsilon:g}")
            for epsilon, values in zip(self.mixtures.epsilons[1:], own[1:], strict=True)
        ]
        name = "the images, for each ε" if several else "the images"
        lines += [Line(x, numbers(values), name=name, style="dashed") for values in (ideal if several else ideal[:1])]
        at = int((points >= self.start - 1e-9).nonzero()[0])
        return Curves(
            heading=HEADING,
            how_to_read=HOW_TO_READ,
            title="Expected bounds",
            lines=tuple(lines),
            across="threshold accuracy a_t",
            label="expected bound",
            most=1.0,
            dotted=self.start,
            summary=(
                f"expected bound against threshold accuracy, a line for each ε. At {self.start:g} it is "
                f"{own[0, at]:.3g} for the smallest ε and {own[-1, at]:.3g} for the largest, of {ideal[0, at]:.3g} "
                "that are possible"
            ),
        )

    def _trade_off(self, table: Table, epsilon: float) -> synbench.TradeOff:
        """Return what the table holds of one ε."""
        # Rows follow each other by direction, then s, then half
        shape = (self.mixtures.directions, len(self.mixtures.separations), self.mixtures.halves)
        accuracy, bound, best_accuracy, best_bound = (table[f"{kind}@{epsilon:g}"].view(shape) for kind in KINDS[1:])
        return synbench.TradeOff(
            table["s"].view(shape)[0, :, 0],
            accuracy,
            bound,
            # The reference is the same for both halves
            best_accuracy[..., 0],
            best_bound[..., 0],
            self.mixtures.samples,
        )


def _name_score(start: float, epsilon: float) -> str:
    return f"a_t {start:g}, ε {epsilon:g}"
