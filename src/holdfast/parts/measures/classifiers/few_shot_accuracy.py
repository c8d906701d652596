"""Few-shot accuracy: how often a probe is right that learned from a few images of each class."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.core import Observation, Probe, Rng, Subject, Table, Threat
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.numerics.statistics.two_way import TwoWayMean
from holdfast.parts.measures.shared.probe import labels_of
from holdfast.parts.measures.shared.tested import TestedMeasure
from holdfast.parts.probes.few_shot import FewShot
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.shared.shots import draw_shots
from holdfast.parts.probes.shared.stream import select
from holdfast.runtime.errors import BadValue, Missing


@dataclass(frozen=True)
class FewShotAccuracy(TestedMeasure):
    """E_S E_x 1[the probe that learned from S classifies f(x) as y(x)], S of n training images of each class.

    S is drawn several times by the audit's seed; one draw's images for fewer shots are among those for more.

    Table, one row per image: `right@TITLE`, the share of the draws in which it is classified rightly, for each number
    of shots; `draw D@TITLE`, 1 or 0 in each of them.

    Attributes:
        probe: how a classifier comes about.
        threat: what befalls the tested images; None: nothing.
        shots: training images of each class; the last one is the headline.
        draws: how often they are drawn.
    """

    probe: Probe = Linear()
    threat: Threat | None = None
    shots: tuple[int, ...] = (1, 5, 10)
    draws: int = 10

    better = "higher"
    unit = "share"
    question = "How accurate is a classifier trained on only a few images per class?"
    how_to_read = (
        "The fewer images it needs, the more the representation already separates the classes. The interval covers "
        "both the tested images and the draw of training images from those available."
    )
    reference = "few-shot linear evaluation, as in Kolesnikov et al. (2020)"

    def __post_init__(self) -> None:
        if self.consistent and self.threat is None:
            raise Missing("few_shot_accuracy: consistent: expected a threat that befalls training images as well")
        if not self.shots or len(set(self.shots)) < len(self.shots):
            raise BadValue(f"few_shot_accuracy: shots: expected one number or more, each once, got {self.shots}")
        if self.draws < 2:
            raise BadValue(
                f"few_shot_accuracy: draws: expected at least 2 (one does not tell how they differ), got {self.draws}"
            )
        for shots in self.shots:
            FewShot(self.probe, shots)  # what it refuses

    @property
    def titles(self) -> dict[str, int]:
        """The numbers of shots by their titles."""
        return {f"{shots} shot{'s' if shots > 1 else ''}": shots for shots in self.shots}

    @property
    def column(self) -> str:
        """In which share of the draws each image is classified rightly."""
        return f"right@{list(self.titles)[-1]}"

    def observations(self) -> tuple[Observation, ...]:
        """Representations of tested and of training images."""
        return self.looks(self.threat)

    def observe(self, subject: Subject) -> Table:
        """Return in which draws every image is classified rightly."""
        # [draws, shots, images]
        draws = torch.stack([self._score_draw(subject, draw) for draw in range(self.draws)]).double()
        table: Table = {f"right@{title}": hits for title, hits in zip(self.titles, draws.mean(0), strict=True)}
        for draw, rows in enumerate(draws, 1):
            table |= {f"draw {draw}@{title}": hits for title, hits in zip(self.titles, rows, strict=True)}
        return table

    def _score_draw(self, subject: Subject, draw: int) -> Bool[Tensor, "shots images"]:
        """Return which images are classified rightly in one draw, for each number of shots."""
        bank = subject.bank(self.threat if self.consistent else None)
        most = max(self.shots)
        # The most shots are drawn once for each draw, class by class; fewer are the first of them
        places = draw_shots(bank.labels, most, Rng(subject.seed, ("few_shot_accuracy", str(draw))))
        # [classes, most, D], so that the first shots of every class are a slice
        reps, labels = select(bank, places).unflatten(0, (-1, most)), bank.labels[places].view(-1, most)
        tested = labels_of(subject)[: self._count_tested(subject)]
        tested_reps, hits = self._reps(subject, self.threat)[: len(tested)], []
        for shots in self.shots:
            learned = self.probe.fit(reps[:, :shots].flatten(0, 1), labels[:, :shots].flatten())
            # No class comes before the own one
            hits.append(learned.ranks(tested_reps, tested) == 0)
        return torch.stack(hits)

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the accuracy for each number of shots."""
        return {
            title: TwoWayMean(self._hits(table, title), condition="given the training images", most=1.0)
            for title in self.titles
        }

    def _hits(self, table: Table, title: str) -> Float[Tensor, "images draws"]:
        return torch.stack([table[f"draw {draw}@{title}"] for draw in range(1, self.draws + 1)], 1)
