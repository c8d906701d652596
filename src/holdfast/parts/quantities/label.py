"""Whether a classifier on the frozen representation still says the right class."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from holdfast.core import Observation, Probe, Subject, Table
from holdfast.core.quantity import Moved, Quantity
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.observations.training import Training
from holdfast.parts.probes.knn import Knn
from holdfast.runtime.errors import no_labels


@dataclass(frozen=True)
class Label(Quantity):
    """1[the probe classifies f(x') as y(x)]; the share of images.

    The probe learns from clean training images, whatever befalls the tested ones.

    Table, one row per disturbed image: `right`.

    Attributes:
        probe: how the classifier comes about.
    """

    probe: Probe = Knn()

    needs_labels = True
    per_image = "right"
    better = "higher"
    unit = "share"
    question = "How often does a classifier on the frozen representation still say the right class?"
    how_to_read = (
        "100 % means that every disturbed image is classified rightly; images that were wrong before count too."
    )
    reference = "appendix B of Petrov & Kwiatkowska (2022), for transfer accuracy"

    def observations(self) -> tuple[Observation, ...]:
        """Return the training images."""
        return (Training(),)

    def observe(self, subject: Subject, clean: Float[Tensor, "population dim"], moved: Moved) -> Table:
        """Return which images are classified rightly.

        Raises:
            HoldfastError: images without labels.
        """
        if subject.labels is None:
            raise no_labels("the quantity label", "the source of images")
        # Learned once from clean training images, whatever disturbed the tested ones
        classifier, labels = subject.fit_probe(self.probe, None), subject.labels
        return {
            f"right@{name}": (classifier.ranks(reps.float(), labels[: len(reps)]) == 0).double()
            for name, reps in moved.items()
        }

    def reduce(self, table: Table, name: str) -> Statistic:
        """Return the share of images that are right."""
        return Share(table[f"right@{name}"], condition="given what the probe learned")
