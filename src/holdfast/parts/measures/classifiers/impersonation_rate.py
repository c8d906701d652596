"""Impersonation rate: how often an attack on the encoder alone makes an unseen classifier see the other class."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.core import Attack, Ball, Chart, LinearProbe, Measure, Objective, Observation, Score, Subject, Table
from holdfast.numerics import statistics
from holdfast.numerics.statistics.statistic import Composed, Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.measures.shared.attack_measure import along_attack, beyond
from holdfast.parts.measures.shared.probe import labels_of
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.impersonated import Impersonated
from holdfast.parts.observations.shared.label_sets import LabelSet, sides
from holdfast.parts.probes.linear import Linear
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue
from holdfast.runtime.rounding import PIXELS

USUAL = (3, 10, 30, 50)
"""Step counts at which the measure is reported, as far as the attack goes."""


@dataclass(frozen=True)
class ImpersonationRate(Measure):
    """E 1[h(f(x'_i→j)) = y(x_j)] over pairs of two classes, x'_i→j ~ argmin ||f(x') - f(x_j)||, h a linear head on f.

    Only images that h classifies rightly are paired; the attack does not know h. Both directions count alike.

    Table, one row per image: `taken@STEP`, 1 or 0, NaN where an image is in no pair; `pair`, its number or -1; `way`, 0
    for an image of the first class, 1 for one of the second, -1 for others; `right`, whether h knows the image. Where
    the search restarts, `moved@STEP`: how far an image is from the clean one, in the ball's norm.

    Attributes:
        classes: the two classes, each a label or a set of them, "281-285" or "3, 5-7".
        known_as: what training images with classes of their own call the two, likewise; none: they call them the same.
        attack: how the worst case is searched.
        ball: where, in pixels of a [0, 1] image.
        objective: what the adversary maximises; its divergence is free.
        probe: how the head comes about; trained on images that are not attacked.
        readouts: step counts of the attack at which the measure is reported; the last one is the headline. When empty,
            3, 10, 30 and 50 as far as the attack goes, and its last step. Those beyond the attack are left out.
        restart: whether the ball is laid around the attacked image again at every read-out, as the authors do; images
            then end outside the ball around the clean one, and the scores say how many and how far. Takes `pgd` with a
            step size.
        first: attack only the first images; None: all that the audit attacks.
    """

    classes: tuple[LabelSet, LabelSet] = (0, 1)
    attack: Attack = Apgd(50)
    ball: Ball = Linf(0.1)
    objective: Objective = Targeted()
    probe: LinearProbe = Linear()
    readouts: tuple[int, ...] = ()
    first: Count | None = None
    known_as: tuple[LabelSet, ...] = ()
    restart: bool = False

    reads_labels = True
    better = "lower"
    in_brief = True
    unit = "share"
    question = (
        "How often does an attack that uses only the encoder make an unseen classifier predict the target's class?"
    )
    how_to_read = (
        "The attack gives images of one class the representation of images of another. A high rate means that anyone "
        "who can run the encoder can fool every classifier built on it. Look at the pictures too: if the attacked "
        "image resembles its target, a person would be fooled as well."
    )
    reference = (
        "Petrov & Kwiatkowska (2022), appendices C.11 and D, Table 4; one ball around the clean image by default"
    )

    def __post_init__(self) -> None:
        if not self.steps:
            raise BadValue(
                f"impersonation_rate: expected read-outs from 0 to {self.attack.steps} steps of the attack, got "
                f"{list(self.readouts)}"
            )
        self.attack_outcome.key()  # refuses what cannot be done

    @property
    def classes_apart(self) -> bool:
        """Whether the head knows classes of its own."""
        return bool(self.known_as)

    @property
    def steps(self) -> tuple[int, ...]:
        """The read-outs, in increasing order."""
        last = self.attack.steps
        if self.readouts:
            return tuple(sorted(step for step in self.readouts if step <= last))
        return (*(step for step in USUAL if step < last), last)

    @property
    def misfits(self) -> Mapping[str, str]:
        """Read-outs that the attack does not reach."""
        return beyond(self.attack, self.readouts)

    @property
    def attack_outcome(self) -> Impersonated:
        """What the attack did."""
        return Impersonated(
            self.attack,
            self.ball,
            self.objective,
            self.steps,
            self.classes,
            self.probe,
            self.known_as,
            self.restart,
            first=self.first,
        )

    @property
    def column(self) -> str:
        """Whether each image is taken for its partner at the last read-out."""
        return _name_column(self.steps[-1])

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations and the attacks."""
        return Clean(), self.attack_outcome

    def observe(self, subject: Subject) -> Table:
        """Return what became of every image; a pair counts where both of its images were attacked."""
        observed, labels = subject.read(self.attack_outcome), labels_of(subject)
        partner = observed["partner"]
        # The first images alone may be attacked: a partner beyond them was not
        paired, labels = (partner >= 0) & (partner < len(partner)), labels[: len(partner)]
        # NaN leaves images that are in no pair out of every share
        taken = {name: observed[name].masked_fill(~paired, torch.nan) for name in map(_name_column, self.steps)}
        way = sides(labels, self.classes)
        if self.restart:
            taken |= {name: observed[name].masked_fill(~paired, torch.nan) for name in map(_name_size, self.steps)}
        return taken | {"pair": torch.where(paired, observed["pair"], -1), "way": way, "right": observed["right"]}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the rate of each direction, then of both, at every read-out."""
        shares: dict[str, Statistic] = {}
        # Appendix C.11: each direction apart, as one class may impersonate the other
        # more easily, and both together
        for way, (own, target) in enumerate((self.classes, self.classes[::-1])):
            for step in self.steps:
                name = f"{own} as {target}, {self.attack.label(step)}"
                shares[name] = self._share(table, step, table["way"] == way)
        for step in self.steps if self.restart else ():
            moved = table[_name_size(step)]
            outside = (moved > self.ball.radius + PIXELS).double().masked_fill(moved.isnan(), torch.nan)
            shares[f"outside the ball, {self.attack.label(step)}"] = self._of_pairs(table, outside).say(
                better="neither"
            )
        return shares | {self.attack.label(step): self._share(table, step) for step in self.steps}

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return the rate along the attack, and how `column` spreads over the images."""
        return *along_attack(self.attack, self.steps), *super().charts(table, scores)

    def _share(self, table: Table, step: int, direction: Bool[Tensor, "rows"] | None = None) -> Statistic:
        """Return the share of paired images that are taken for their partner; of one direction, or of both."""

        def tell(score: Score) -> Score:
            if not self.restart or score.value is None:
                return score
            farthest = float(table[_name_size(step)].nan_to_num(0).max())
            return replace(
                score,
                note=f"the ball was laid anew at every read-out: images lie up to {farthest:.3g} from the clean ones, "
                f"{farthest / self.ball.radius:.2g} ε; no attack within the ball",
            )

        return self._of_pairs(table, table[_name_column(step)], direction).restate(tell)

    def _of_pairs(
        self, table: Table, hits: Float[Tensor, "rows"], direction: Bool[Tensor, "rows"] | None = None
    ) -> Statistic:
        """Return the share of hits among paired images; of one direction, or of both."""
        pairs = table["pair"]
        paired = pairs >= 0
        rows = paired if direction is None else paired & direction

        def of_pairs() -> Score:
            # The two halves of a pair are attacked towards each other,
            # and are one unit where both count
            units = pairs[rows] if direction is None else None
            score = statistics.share(hits[rows], units, condition="given the head and the pairs")
            return score if paired.any() else replace(score, note=self._reason(table))

        # Encoders pair images differently, so influences are those of images
        return Composed(of_pairs, lambda: statistics.influence_of_mean(hits.masked_fill(~rows, torch.nan)))

    def _reason(self, table: Table) -> str:
        counts = []
        for way, name in enumerate(self.classes):
            right = table["right"][table["way"] == way]
            counts.append(f"{int(right.sum())} of {len(right)} attacked images of class {name}")
        return f"undefined, no pair among the attacked images: the head is right about {' and '.join(counts)}"


def _name_column(step: int) -> str:
    return f"taken@{step}"


def _name_size(step: int) -> str:
    return f"moved@{step}"
