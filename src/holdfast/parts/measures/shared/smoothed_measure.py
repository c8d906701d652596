"""What the measures that read noisy draws have in common."""

from dataclasses import dataclass, replace

from holdfast.core import Measure, Observation, Score, Subject, Table
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.smoothed import Smoothed, results
from holdfast.parts.smoothing.pair_probability import PairProbability
from holdfast.parts.smoothing.shared.certificate import Certificate
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class SmoothedMeasure(Measure):
    """A measure of the smoothed encoder, from one certificate per image.

    Attributes:
        sigma: σ of the noise, in pixels; measures with the same σ share their draws.
        certificate: what is read from the draws; each measure fixes its kind.
        first: certify only the first images; None: all that the audit attacks.
        clip: whether noisy pixels are brought back to [0, 1], as a part of the encoder; see `Smoothed`.
    """

    sigma: float = 0.25
    certificate: Certificate = PairProbability()
    first: Count | None = None
    clip: bool = False

    def __post_init__(self) -> None:
        # The kind of certificate is that of the subclass's default
        kind = type(type(self).__dataclass_fields__["certificate"].default)
        if not isinstance(self.certificate, kind):
            raise BadValue(
                f"{type(self).__name__}: expected the certificate {kind.__name__}, got "
                f"{type(self.certificate).__name__}"
            )
        _ = self.draws  # refuses what can never certify

    @property
    def draws(self) -> Smoothed:
        """The draws that it reads."""
        return Smoothed(self.sigma, (self.certificate,), self.first, self.clip)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations and draws."""
        return Clean(), self.draws

    def conclusions(self, subject: Subject) -> Table:
        """Return what the certificate concluded; see its `conclude`."""
        return results(subject.read(self.draws), self.certificate)

    def about(self, statistic: Statistic, *words: str, unit: str = "") -> Statistic:
        """Return a statistic that says of which encoder it speaks, and whatever else a reader must know."""
        clipped = " of clipped pixels" if self.clip else ""
        smoothed = f"about the encoder{clipped} smoothed with σ {self.sigma:g}, not the encoder itself"

        def tell(score: Score) -> Score:
            return replace(score, note="; ".join(filter(None, [smoothed, *words, score.note])), unit=unit)

        return statistic.restate(tell)
