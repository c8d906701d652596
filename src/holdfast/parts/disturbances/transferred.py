"""An attack that was made on another encoder."""

from dataclasses import dataclass

from holdfast.core import Attack, Ball, Observation
from holdfast.core.disturbance import Disturbance
from holdfast.core.registry import part_name
from holdfast.core.source_spec import label
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.observations.attacked_images import AttackedImages
from holdfast.parts.observations.transferred import Transferred as Judged
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import Missing
from holdfast.runtime.privacy import public


@dataclass(frozen=True)
class Transferred(Disturbance):
    """x' = argmax over the ball of ||f_s(x') - f_s(x)||: an outsider has f_s, and never runs the audited encoder f.

    Attributes:
        surrogate: the spec of f_s.
        ball: where x' lies, in pixels of the audited encoder's images.
        attack: how it is searched.

    Source: Papernot et al. (2016); surrogates in representation space are Holdfast's own.
    """

    surrogate: str = ""
    ball: Ball = Linf(0.05)
    attack: Attack = Apgd(50)

    note = "another surrogate, nearer to this encoder, reaches more"

    @property
    def title(self) -> str:
        """Whose attack, and where."""
        return f"attack on {public(label(self.surrogate))}, {self.ball.title}"

    def observations(self) -> tuple[Observation, ...]:
        """Return the attacked images, and what they are to the audited encoder.

        Raises:
            HoldfastError: no surrogate.
        """
        if not self.surrogate.strip():
            raise Missing(
                f"{part_name(self)}: expected another encoder as surrogate, got none; write "
                f"{part_name(self)}[surrogate=SPEC], see holdfast list encoders"
            )
        # On the surrogate, then what becomes of these images here
        attacked = AttackedImages(self.surrogate, self.attack, self.ball, first=self.first)
        return attacked, Judged(attacked, first=self.first)
