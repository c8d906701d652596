"""What the measures that test a fine-tuned encoder, without and under threats, have in common."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.core import Head, Measure, Observation, Subject, Table, Threat
from holdfast.core.registry import part_name
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.measures.shared.disturbed import AVERAGE, index_by_title
from holdfast.parts.measures.shared.probe import labels_of
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.fine_tuned import FineTuned
from holdfast.parts.observations.tuned import Tuned
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import Conflict


@dataclass(frozen=True)
class FineTunedMeasure(Measure):
    """A measure that reads whether a fine-tuned encoder is right on clean images and under each of some threats.

    Table, one row per image: `right`, without a threat; `right@TITLE`, under each; `average`, their mean; `loss`, the
    training loss of the last epoch (without a threat), the same for all.

    Attributes:
        fine_tuned: how the encoder is fine-tuned.
        threats: what befalls the tested images, one after the other; of a noise, one draw for each image.
        consistent: whether the training images are disturbed alike, fine-tuning anew for each threat.
        first: how many images are tested; None: all that the audit attacks.
    """

    fine_tuned: FineTuned = FineTuned()
    threats: tuple[Threat, ...] = ()
    consistent: bool = False
    first: Count | None = None

    reads_labels = True

    def __post_init__(self) -> None:
        if self.threats:
            index_by_title(self, self.threats)
        if self.consistent and (not self.threats or self.fine_tuned.threat is not None):
            raise Conflict(
                f"{part_name(self)}: consistent: expected threats that befall training images as well, and a "
                "fine_tuned without a threat of its own"
            )

    @property
    def column(self) -> str:
        """The share of the threats under which each image is classified rightly; without threats, whether it is."""
        return AVERAGE if self.threats else "right"

    @property
    def corruptions(self) -> tuple[str, ...]:
        """The threats by their titles."""
        return tuple(self.threats_by_title)

    @property
    def threats_by_title(self) -> dict[str, Threat]:
        """The threats by their titles."""
        return index_by_title(self, self.threats) if self.threats else {}

    def looks(self, threat: Threat | None) -> tuple[FineTuned, Tuned]:
        """Return what a test under a threat, or of clean images, reads."""
        # Fine-tuned anew for each threat where training images are disturbed alike
        training = replace(self.fine_tuned, threat=threat) if self.consistent else self.fine_tuned
        return training, Tuned(training, threat, first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, which any audit begins with, and what is fine-tuned and tested."""
        return tuple(dict.fromkeys([Clean(), *(o for t in (None, *self.threats) for o in self.looks(t))]))

    def observe(self, subject: Subject) -> Table:
        """Return whether every image is classified rightly, clean and under every threat."""
        right = {"right": (self.ranks(subject, None) == 0).double()}
        under = {f"right@{title}": (self.ranks(subject, t) == 0).double() for title, t in self.threats_by_title.items()}
        average = {AVERAGE: torch.stack(list(under.values())).mean(0)} if under else {}
        # How far the training came, in every row, so that the table alone tells it
        loss = subject.read(self.looks(None)[0])["loss"][-1]
        return right | under | average | {"loss": loss.expand(len(right["right"])).clone()}

    def ranks(self, subject: Subject, threat: Threat | None) -> Int[Tensor, "images"]:
        """Return how many classes come before each image's own under a threat, or of clean images."""
        training, tested = self.looks(threat)
        classes, logits = subject.read(training)["classes"], subject.read(tested)["logits"]
        count = len(classes)
        # Logits are a head's scores already: an identity ranks them as any other head's
        return Head(torch.eye(count), torch.zeros(count), classes).ranks(logits, labels_of(subject)[: len(logits)])

    def clean(self, table: Table) -> Statistic:
        """Return the accuracy without a threat, and how far the training came."""
        note = f"training loss {float(table['loss'][0]):.3g} in the last epoch; more epochs where it still falls"
        return Share(table["right"], condition=self.condition).restate(lambda score: replace(score, note=note))

    def average(self, table: Table) -> Statistic:
        """Return the mean accuracy over the threats; the threats of one image are a cluster."""
        rows = torch.cat([table[f"right@{title}"] for title in self.corruptions])
        units = torch.arange(len(table["right"])).repeat(len(self.corruptions))
        return Share(rows, units, self.condition)

    @property
    def condition(self) -> str:
        """What the intervals are conditional on."""
        return "given what was fine-tuned"
