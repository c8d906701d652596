"""What ends an audit in rounds, beside its budget: so many images, or an interval that is narrow enough."""

import re
from dataclasses import dataclass

from holdfast.core import Score
from holdfast.runtime.checked import Checked, Count
from holdfast.runtime.errors import BadValue
from holdfast.storage.record import Record
from holdfast.storage.standing import VOID

EXAMPLES = "'24 images', 'breaking_radius ± 10%' or 'breakaway_risk ± 0.01'"


@dataclass(frozen=True)
class Until(metaclass=Checked):
    """Where an audit in rounds ends: at a number of images, or at a precision.

    Attributes:
        images: after which so many images are attacked; None: any number.
        measure: whose interval decides; "" where a number of images does.
        width: half of the interval's length below which it is narrow enough, in the measure's unit.
        relative: whether `width` is a share of the value.
    """

    images: Count | None = None
    measure: str = ""
    width: float = 0.0
    relative: bool = False

    def __post_init__(self) -> None:
        if self.images is None and not (self.measure and self.width > 0):
            raise BadValue(f"until: expected {EXAMPLES}, got {self}")
        if self.images is not None and self.images % 2:
            raise BadValue(f"until: expected an even number, for images are attacked in pairs, got {self}")

    def __str__(self) -> str:
        if self.images is not None:
            return f"{self.images} images"
        return f"{self.measure} ± {100 * self.width:g}%" if self.relative else f"{self.measure} ± {self.width:g}"

    @property
    def by_precision(self) -> bool:
        """Whether what was measured decides when the audit ends: intervals must then hold at every round."""
        return self.images is None

    def is_met(self, record: Record) -> bool:
        """Return whether a record is enough: of every encoder that has the number, the interval is narrow enough."""
        if self.images is not None:
            return record.data.attacked >= self.images
        answers = [encoder.measures.get(self.measure) for encoder in record.encoders if not encoder.error]
        scores = [answer.headline_score for answer in answers if answer is not None]
        scores = [score for score in scores if score is not None and score.standing != VOID]  # no image mends these
        return bool(scores) and all(map(self._narrow, scores))

    def _narrow(self, score: Score) -> bool:
        if score.value is None or score.low is None or score.high is None:
            return False
        most = self.width * abs(score.value) if self.relative else self.width
        return (score.high - score.low) / 2 <= most


def until_of(text: str) -> Until:
    """Read "24 images", "breaking_radius ± 10%" or "breakaway_risk ± 0.01"; +- stands for ±.

    Example:
        >>> until_of("breaking_radius +- 10%").width
        0.1
    """
    if images := re.fullmatch(r"(\d+) images?", text.strip()):
        return Until(images=int(images[1]))
    precision = re.fullmatch(r"(\S+)\s*(?:±|\+-|\+/-)\s*(\d*\.?\d+(?:e-?\d+)?)\s*(%?)", text.strip())
    if precision is None:
        raise BadValue(f"until: expected {EXAMPLES}, got {text!r}")
    relative = bool(precision[3])
    return Until(measure=precision[1], width=float(precision[2]) / (100 if relative else 1), relative=relative)
