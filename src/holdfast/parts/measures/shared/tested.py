"""What the measures that test a probe on images have in common."""

from dataclasses import dataclass, replace

from jaxtyping import Int
from torch import Tensor

from holdfast.core import Classifier, LinearProbe, Measure, Observation, Probe, Reps, Subject, Table, Threat
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.measures.shared.probe import labels_of
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.represented import Represented
from holdfast.parts.observations.training import Training
from holdfast.parts.probes.knn import Knn
from holdfast.runtime.checked import Count


@dataclass(frozen=True)
class TestedMeasure(Measure):
    """A measure that reads how a probe classifies images, as they are or under threats.

    Attributes:
        probe: how the classifier comes about.
        consistent: whether the training images are disturbed like the tested ones; else the probe learns from clean
            ones.
        first: how many images are tested; None: all that the audit attacks.
    """

    probe: Probe = Knn()
    consistent: bool = False
    first: Count | None = None

    __test__ = False  # for pytest, which takes it for a test by its name
    reads_labels = True

    @property
    def attention_probe(self) -> LinearProbe | None:
        """The probe, where it is linear and learns from clean images."""
        return self.probe if isinstance(self.probe, LinearProbe) and not self.consistent else None

    def looks(self, threat: Threat | None) -> tuple[Observation, ...]:
        """Return what a test under a threat, or of clean images, reads."""
        # The probe learns from images disturbed like the tested ones, or from clean ones
        train = Training(threat if self.consistent else None)
        return Clean(), *((Represented(threat=threat, first=self.first),) if threat else ()), train

    def ranks(self, subject: Subject, threat: Threat | None) -> Int[Tensor, "images"]:
        """Return how many classes come before each image's own under a threat, or of clean images."""
        # The first images, as many as were disturbed
        labels = labels_of(subject)[: self._count_tested(subject)]
        return self.classifier(subject, threat).ranks(self._reps(subject, threat)[: len(labels)], labels)

    def classifier(self, subject: Subject, threat: Threat | None) -> Classifier:
        """Return the classifier that a test under a threat uses."""
        return subject.fit_probe(self.probe, threat if self.consistent else None)

    def _count_tested(self, subject: Subject) -> int:
        return subject.attacked if self.first is None else min(self.first, subject.attacked)

    def _reps(self, subject: Subject, threat: Threat | None) -> Reps:
        observation = Clean() if threat is None else Represented(threat=threat, first=self.first)
        return subject.read(observation)["reps"]

    def count_training_images(self, subject: Subject) -> int:
        """Return how many images the probe learned from; 0 for one that learns nothing."""
        return len(subject.bank().labels) if self.probe.trains else 0

    def annotate(self, statistic: Statistic, table: Table) -> Statistic:
        """Return a statistic that says so where fewer training images vote than were asked for."""
        size = int(table["taught"][0])
        if not isinstance(self.probe, Knn) or size >= self.probe.k:
            return statistic
        words = f"all {size} training images vote, fewer than k = {self.probe.k}"
        return statistic.restate(lambda score: replace(score, note="; ".join(filter(None, [score.note, words]))))

    @property
    def condition(self) -> str:
        """What the intervals are conditional on."""
        return "given what the probe learned"
