"""What probes learn for an audit: from training images, or from images of the audit that it does not attack."""

from holdfast.auditing.representations import CLEAN
from holdfast.core import Classifier, HoldfastError, Probe, Subject, Threat
from holdfast.core.observation import learning_of
from holdfast.runtime.errors import no_labels

FEWEST = 2
"""Images that every class of the attacked images must have among those that are not attacked."""


def classifier_of(
    subject: Subject, probe: Probe, threat: Threat | None = None, classes_apart: bool = False
) -> Classifier:
    """Return what a probe learns from the representations of the training images, disturbed by a threat or not.

    Without training images of their own these are the images at positions >= `subject.attacked`, so that no image that
    is attacked, certified or tested was seen in training. A probe that does not train reads nothing.
    """
    labels = subject.labels
    if labels is None:
        raise no_labels("this measure", "the audit's source of images")
    if not probe.trains:
        return probe.fit(subject.read(CLEAN)["reps"], labels)

    # Every class that is tested needs images to learn from
    bank = subject.bank(threat)
    for label in [] if classes_apart else labels[: subject.attacked].unique().tolist():
        count = int((bank.labels == label).sum())
        if subject.has_training_set and count < 1:
            raise HoldfastError(
                f"probes learn from the training images: expected some of each class of the tested images among these "
                f"{len(bank.labels)}, got none of class {label}; leave the class out, or give training images of it"
            )
        if not subject.has_training_set and count < FEWEST:
            raise HoldfastError(
                f"probes learn from the images that are not attacked: expected at least {FEWEST} of each class among "
                f"these {len(bank.labels)} of {len(labels)}, got {count} of class {label}; give training images "
                "(--train), attack fewer images, use more, or a head from a file"
            )

    # Learned through the encoder, by an observation, or from representations
    if probe.through:
        return probe.build_classifier(subject.read(learning_of(probe, threat)))
    return probe.learn(bank)
