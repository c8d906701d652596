"""What befalls an image by itself: an edit, a corruption, one draw of a noise."""

from dataclasses import dataclass

from holdfast.core import Observation, Threat
from holdfast.core.disturbance import Disturbance
from holdfast.core.registry import part_name
from holdfast.parts.observations.represented import Represented
from holdfast.parts.threats.gamma import Gamma


@dataclass(frozen=True)
class Drawn(Disturbance):
    """x' = threat(x): the one change of a corruption, one draw of a noise.

    Attributes:
        threat: what befalls the image.
    """

    threat: Threat = Gamma()

    @property
    def label(self) -> str:
        """The threat's name, which alone stands for this."""
        return part_name(self.threat)

    @property
    def title(self) -> str:
        """The threat."""
        return self.threat.title

    def observations(self) -> tuple[Observation, ...]:
        """Return the disturbed images."""
        return (Represented(threat=self.threat, first=self.first),)
