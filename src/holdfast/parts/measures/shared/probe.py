"""What probes learn for an audit: from training images, or from images of the audit that it does not attack."""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass

from jaxtyping import Int
from torch import Tensor

from holdfast.core import Classifier, Head, HoldfastError, LinearProbe, Observation, Probe, Subject, Threat
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.robust_head import RobustHead
from holdfast.parts.observations.training import Training
from holdfast.parts.probes.robust_linear import RobustLinear
from holdfast.runtime.errors import no_labels

FEWEST = 2
"""Images that every class of the attacked images must have among those that are not attacked."""


def labels_of(subject: Subject) -> Int[Tensor, "population"]:
    """Return the labels of the population.

    Raises:
        HoldfastError: images without labels.
    """
    if subject.labels is None:
        raise no_labels("this measure", "the audit's source of images")
    return subject.labels


def head_of(subject: Subject, probe: LinearProbe, threat: Threat | None = None) -> Head:
    """Return the linear head that a probe learns; see `classifier_of`."""
    head = subject.learned(probe, threat)
    assert isinstance(head, Head)  # so says LinearProbe
    return head


def classifier_of(subject: Subject, probe: Probe, threat: Threat | None = None) -> Classifier:
    """Return what a probe learns from the representations of the training images, disturbed by a threat or not.

    Without training images of their own these are the images at positions >= `subject.attacked`, so that no image that
    is attacked, certified or tested was seen in training. A probe that does not train reads nothing.

    Raises:
        HoldfastError: images without labels, or a class of the tested images of which too few are left to learn from.
    """
    labels = labels_of(subject)
    if not probe.trains:
        return probe.fit(subject.read(Clean())["reps"], labels)
    bank = subject.bank(threat)
    for label in labels[: subject.attacked].unique().tolist():
        count = int((bank.labels == label).sum())
        if subject.trained_apart and count < 1:
            raise HoldfastError(
                f"probes learn from the training images: expected some of each class of the tested images among these "
                f"{len(bank.labels)}, got none of class {label}; leave the class out, or give training images of it"
            )
        if not subject.trained_apart and count < FEWEST:
            raise HoldfastError(
                f"probes learn from the images that are not attacked: expected at least {FEWEST} of each class among "
                f"these {len(bank.labels)} of {len(labels)}, got {count} of class {label}; give training images "
                "(--train), attack fewer images, use more, or a head from a file"
            )
    if probe.through:
        seen = head_observation(probe, threat)
        return seen.learned(subject.read(seen))
    return probe.learn(bank)


def heads(part: object, observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Return what must be observed for the probes of a part that learn through the encoder: what they read, then them.

    Such a probe learns from training images as the part observes them: disturbed where it reads them disturbed.

    Args:
        part: a measure or a check, in which probes are looked for at any depth.
        observations: its own.
    """
    threats = dict.fromkeys(one.threat for one in observations if isinstance(one, Training)) or {None: None}
    probes = dict.fromkeys(probe for probe in _probes(part) if probe.through)
    learned = [head_observation(probe, threat) for probe in probes for threat in threats]
    return tuple(dict.fromkeys(one for head in learned for one in (*head.reads, head)))


def head_observation(probe: Probe, threat: Threat | None = None) -> RobustHead:
    """Return the observation in which a probe learns through the encoder."""
    assert isinstance(probe, RobustLinear)  # the one that does
    return RobustHead(probe, threat)


def _probes(part: object) -> Iterator[Probe]:
    """Yield all probes among the parameters of a part, and of these."""
    if isinstance(part, Probe):
        yield part
    inner = part if isinstance(part, tuple) else ()
    if is_dataclass(part):
        inner = [getattr(part, field.name) for field in fields(part)]
    for one in inner:
        yield from _probes(one)
