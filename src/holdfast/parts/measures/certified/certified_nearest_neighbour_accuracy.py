"""Certified nearest-neighbour accuracy: how often an attacked image must still find itself among all clean images."""

from dataclasses import dataclass

from typing_extensions import override

from holdfast.core import Subject, Table
from holdfast.parts.measures.shared.population import AgainstPopulation


@dataclass(frozen=True)
class CertifiedNearestNeighbourAccuracy(AgainstPopulation):
    """1/|D'| Σ_{x∈D'} 1[ no x'∈D, x'≠x, has d(f(x̂), f(x')) < d(f(x̂), f(x)) for any x̂ of the ball ].

    attack: x̂ is anything that a search of the run met in the ball, whatever it pursued; certificate: all lower bounds
    of margins are at least 0. The truth lies between the two.

    Table, one row per image: `attack` and `certificate`, 1 where x is still nearest; `vacuous`, a share.
    """

    statistic = "share"
    condition = "given this population of images"
    better = "higher"
    unit = "share"
    question = "How often is the original guaranteed to stay the nearest clean neighbour of an attacked image?"
    how_to_read = (
        "Attack: the share of images that every attack of this audit left recognisable among all images. Certificate: "
        "the share proved to stay recognisable under any attack."
    )
    reference = "Petrov & Kwiatkowska (2022), Eq. 4, certified through the linear pair margin of Wang & Liu (2023)"

    @property
    @override
    def title(self) -> str:
        return "Certified nearest-neighbour accuracy"

    def observe(self, subject: Subject) -> Table:
        """Return whether every image finds itself, on both sides."""
        broken, unproved, vacuous = self.find_broken_pairs(subject)
        return {
            # Eq. 4: one pair that is broken is enough
            "attack": (~broken.any(1)).double(),
            "certificate": (~unproved.any(1)).double(),
            "vacuous": vacuous,
        }
