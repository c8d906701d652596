"""What parts of users read: copies, so that what they change in place is theirs alone."""

from typing import Any

from torch import Tensor

from holdfast.core import Bank, Images, Observation, Subject, Threat


class Copied:
    """A subject that gives copies of what was observed; everything else is the subject's own.

    Args:
        subject: who was observed.
    """

    def __init__(self, subject: Subject):
        self._subject = subject

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subject, name)

    def batch(self, start: int, stop: int) -> Images:
        """Return some images of the population."""
        return self._subject.batch(start, stop).clone()

    def read(self, observation: Observation) -> dict[str, Tensor]:
        """Return what the observation saw."""
        return {key: value.clone() for key, value in self._subject.read(observation).items()}

    def bank(self, threat: Threat | None = None) -> Bank:
        """Return the representations of the training images."""
        bank = self._subject.bank(threat)
        return Bank(bank.labels.clone(), lambda: (chunk.clone() for chunk in bank.chunks()))


def readable_by(part: object, subject: Any) -> Any:
    """Return the subject as a measure or a check may read it: Holdfast's own leave it as it is."""
    is_own = type(part).__module__.partition(".")[0] == __name__.partition(".")[0]
    return subject if is_own else Copied(subject)
