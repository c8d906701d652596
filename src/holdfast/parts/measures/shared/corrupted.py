"""What the measures of a probe's accuracy under several corruptions have in common."""

from dataclasses import dataclass

import torch

from holdfast.core import Observation, Subject, Table, Threat
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.measures.shared.disturbed import AVERAGE, SIX, index_by_title
from holdfast.parts.measures.shared.tested import TestedMeasure


@dataclass(frozen=True)
class CorruptedMeasure(TestedMeasure):
    """A measure that reads whether a probe is right on clean images and under each of several threats.

    Table, one row per image: `right`, without a corruption; `right@TITLE`, under each; `average`, their mean;
    `taught`, how many images the probe learned from.

    Attributes:
        threats: the corruptions, one after the other; of a noise, one draw for each image.
    """

    threats: tuple[Threat, ...] = SIX

    def __post_init__(self) -> None:
        index_by_title(self, self.threats)

    @property
    def column(self) -> str:
        """The share of the corruptions under which each image is classified rightly."""
        return AVERAGE

    def observations(self) -> tuple[Observation, ...]:
        """Representations of tested and of training images, clean and under every corruption."""
        # Training images and clean ones are read under every corruption: each observation once
        wanted = [*self.looks(None), *(look for threat in self.threats for look in self.looks(threat))]
        return tuple(dict.fromkeys(wanted))

    def observe(self, subject: Subject) -> Table:
        """Return whether every image is classified rightly, clean and under every corruption."""
        titles = index_by_title(self, self.threats)
        under = {f"right@{t}": (self.ranks(subject, threat) == 0).double() for t, threat in titles.items()}
        average = torch.stack(list(under.values())).mean(0)
        right = (self.ranks(subject, None) == 0).double()
        return {
            "right": right,
            **under,
            AVERAGE: average,
            "taught": torch.full_like(right, self.count_training_images(subject)),
        }

    @property
    def corruptions(self) -> tuple[str, ...]:
        """The corruptions by their titles."""
        return tuple(index_by_title(self, self.threats))

    def clean(self, table: Table) -> Statistic:
        """Return the accuracy without a corruption."""
        return self.annotate(Share(table["right"], condition=self.condition), table)

    def average(self, table: Table) -> Statistic:
        """Return the mean accuracy over the corruptions; the corruptions of one image are a cluster."""
        # [corruptions · images]: all answers, of which those about one image are a unit
        rows = torch.cat([table[f"right@{title}"] for title in self.corruptions])
        units = torch.arange(len(table["right"])).repeat(len(self.corruptions))
        return self.annotate(Share(rows, units, self.condition), table)
