"""The two sides of a bracket: what an attack found and what is proved lie around the truth, one on each side."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SIDES = ("attack", "certificate")
"""The two scores of a measure that is answered from both sides."""

PROVED = "proved"
"""The score that is the proof beside a headline that an attack found."""


@dataclass(frozen=True)
class Side:
    """One side of a bracket.

    Attributes:
        score: the score that says it.
        source: "attack" or "proof".
        bound: "upper" where the truth is at most the score's value, "lower" where it is at least that.
    """

    score: str
    source: str
    bound: str


def sides_of(scores: Mapping[str, Any], headline: str | None, better: str) -> tuple[Side, ...]:
    """Return what an attack found, then what is proved; empty for a measure that is answered from one side alone.

    An attack shows that an encoder is at least so bad, a proof that it is at least so good.

    Example:
        >>> [(side.score, side.bound) for side in sides_of({"proved": {}, "median": {}}, "median", "higher")]
        [('median', 'upper'), ('proved', 'lower')]
    """
    if all(side in scores for side in SIDES):
        attack, proof = SIDES
    elif headline in scores and PROVED in scores and headline != PROVED:
        attack, proof = str(headline), PROVED
    else:
        return ()
    bounds = ("upper", "lower") if better == "higher" else ("lower", "upper")
    return Side(attack, "attack", bounds[0]), Side(proof, "proof", bounds[1])
