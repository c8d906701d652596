"""A linear head for an audit: trained on images that the audit does not attack or certify."""

from jaxtyping import Int
from torch import Tensor

from holdfast.core import Head, HoldfastError, Probe, Subject
from holdfast.errors import no_labels
from holdfast.observations.clean import Clean

FEWEST = 2
"""Training images that every class of the attacked images must have."""


def labels_of(subject: Subject) -> Int[Tensor, "population"]:
    """Return the labels of the population.

    Raises:
        HoldfastError: images without labels.
    """
    if subject.labels is None:
        raise no_labels("this measure", "the audit's source of images")
    return subject.labels


def head_of(subject: Subject, probe: Probe) -> Head:
    """Return a head trained on the clean representations at positions >= `subject.attacked`.

    So no image that is attacked or certified was seen in training. A probe that does not train gets all images.

    Raises:
        HoldfastError: images without labels, or a class of the attacked images of which too few others are left.
    """
    labels, reps = labels_of(subject), subject.read(Clean())["reps"]
    if not probe.trains:
        return probe.fit(reps, labels)
    first = subject.attacked
    needed, left = labels[:first].unique(), labels[first:]
    for label in needed.tolist():
        if (count := int((left == label).sum())) < FEWEST:
            raise HoldfastError(
                f"a head is trained on the images that are not attacked: expected at least {FEWEST} of each class "
                f"among these {len(left)} of {len(labels)}, got {count} of class {label}; attack fewer images, use "
                "more, or a head from a file"
            )
    return probe.fit(reps[first:], left)
