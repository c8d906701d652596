"""What measures read that learn from labels: the labels themselves, and linear heads."""

from jaxtyping import Int
from torch import Tensor

from holdfast.core import Head, LinearProbe, Subject, Threat
from holdfast.runtime.errors import no_labels


def labels_of(subject: Subject) -> Int[Tensor, "population"]:
    """Return the labels of the population.

    Raises:
        HoldfastError: images without labels.
    """
    if subject.labels is None:
        raise no_labels("this measure", "the audit's source of images")
    return subject.labels


def head_of(subject: Subject, probe: LinearProbe, threat: Threat | None = None) -> Head:
    """Return the linear head that a probe learns; see `Subject.fit_probe`."""
    head = subject.fit_probe(probe, threat)
    assert isinstance(head, Head)  # so says LinearProbe
    return head
