"""The certificates of one image, which read one stream of its draws."""

from collections.abc import Mapping

from torch import Tensor

from holdfast.core import Reps
from holdfast.parts.smoothing.shared.certificate import Anchor, Certificate


class Readers:
    """What the certificates of one image want, and what they saw once they are done.

    Attributes:
        results: what each certificate saw, of those that are done.
    """

    def __init__(self, anchors: Mapping[Certificate, Anchor]) -> None:
        self.results: dict[Certificate, dict[str, Tensor]] = {}
        self._sampling = {certificate: certificate.sample(anchor) for certificate, anchor in anchors.items()}
        # Each runs up to its first request
        self._wants = {certificate: next(sampling) for certificate, sampling in self._sampling.items()}
        self._drawn = 0

    @property
    def useful(self) -> int:
        """How many more draws can be of use; 0: all certificates are done."""
        # The most that any may still read; those that stop early read less
        return max((certificate.budget - self._drawn for certificate in self._wants), default=0)

    def read(self, reps: Reps) -> None:
        """Give every certificate that is not done the next draws."""
        self._drawn += len(reps)
        # A copy, because those that are done leave
        for certificate in list(self._wants):
            self._feed(certificate, reps)

    def _feed(self, certificate: Certificate, reps: Reps) -> None:
        """Give one certificate as many draws at a time as it wants, until it is done or the draws are read."""
        start, want = 0, self._wants[certificate]
        try:
            # A certificate may ask for less than there is (the rest of a stage), and then for more at once
            while start < len(reps):
                part = reps[start : start + want]
                start += len(part)
                want = self._sampling[certificate].send(part)
            self._wants[certificate] = want
        # What a generator returns comes as the value of its end
        except StopIteration as done:
            self.results[certificate] = done.value
            del self._wants[certificate]
