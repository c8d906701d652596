"""How much worse a measure may become than a baseline, such as "breaking_radius 5 %": the margins of a gate.

    [MEASURE[.SCORE]]  AMOUNT        where AMOUNT is 5 %, 5 % relative, 5 points, 0.02 or 1/255

Percent of a share are points of percent, as in requirements; of all else they are relative to the baseline's value.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.config.requirements import measure_of
from holdfast.runtime.checked import number
from holdfast.runtime.errors import BadValue, unknown

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_MARGIN = re.compile(
    rf"^(?:(?P<subject>.*\S)\s+)?(?P<number>{_NUMBER}(?:/{_NUMBER})?)\s*(?P<kind>%\s*relative|%|points?)?$"
)
_SHAPE = "[MEASURE[.SCORE]] AMOUNT with an AMOUNT such as 5%, 5% relative, 5 points, 0.02 or 1/255"


@dataclass(frozen=True)
class AllowedDrop:
    """A margin as it was written, in its parts.

    Attributes:
        text: as it was written.
        subject: what it is for: a measure, with or without a score; "" for all headlines.
        amount: the number, without its percent.
        kind: "%", "% relative", "points", or "" for the measure's own unit.
    """

    text: str
    subject: str
    amount: float
    kind: str


@dataclass(frozen=True)
class Margin:
    """How much worse a score may become.

    Attributes:
        amount: in the score's unit, or as a share of the baseline's value.
        relative: whether it is the latter.
        written: the amount, as people read it.
    """

    amount: float
    relative: bool
    written: str


@dataclass(frozen=True)
class Scored:
    """What must be known of a measure to say what may be lost of it.

    Attributes:
        betters: "lower", "higher" or "neither", of its scores by their names.
        headline: its main score.
        units: of its scores by their names.
    """

    betters: Mapping[str, str]
    headline: str
    units: Mapping[str, str]


NONE = Margin(0.0, False, "0")
"""Nothing may be lost."""


def parse(text: str) -> AllowedDrop:
    """Return a margin from what a user writes."""
    match = _MARGIN.match(text.strip())
    if match is None:
        raise BadValue(f"allowed drop {text!r}: expected {_SHAPE}; for example 'breaking_radius 5%'")
    try:
        amount = number(match["number"])
    except ValueError as error:
        raise BadValue(f"allowed drop {text!r}: {error}") from None
    if amount < 0:
        raise BadValue(f"allowed drop {text!r}: expected an amount of at least 0, got {match['number']}")
    # One form for all ways to write it: "% relative" for "%relative"
    kind = " ".join((match["kind"] or "").replace("%", "% ").split())
    return AllowedDrop(text.strip(), match["subject"] or "", amount, "points" if kind == "point" else kind)


def margins(texts: Iterable[str], measures: Mapping[str, Scored]) -> dict[tuple[str, str], Margin]:
    """Return the margin of each (measure, score) that is to be held.

    Those are the scores that are named; the headlines of all measures where an amount stands alone, or where nothing
    is written: then nothing may be lost.
    """
    written = [parse(text) for text in texts]
    held: dict[tuple[str, str], Margin] = {}
    # Those without a measure
    alone = [drop for drop in written if not drop.subject]
    if alone[1:]:
        raise BadValue(f"allowed drops: expected one amount for all measures, got {alone[0].text!r} and others")
    # One amount in a unit says nothing of measures with another unit
    if alone and not alone[0].kind and len({m.units[m.headline] for m in measures.values()}) > 1:
        raise BadValue(
            f"allowed drop {alone[0].text!r}: expected percent, or the measure it is for, since not all have one unit"
        )
    if alone or not written:
        for name, measure in measures.items():
            key = name, measure.headline
            held[key] = _margin(alone[0], measure, measure.headline) if alone else NONE
    # Afterwards those that name a score, which take the place of the general one
    named: dict[tuple[str, str], AllowedDrop] = {}
    for drop in written:
        if not drop.subject:
            continue
        key = _resolve(drop, measures)
        if key in named:
            raise BadValue(
                f"allowed drops: expected one for {'.'.join(key)}, got {named[key].text!r} and {drop.text!r}"
            )
        named[key] = drop
        held[key] = _margin(drop, measures[key[0]], key[1])
    return held


def _resolve(drop: AllowedDrop, measures: Mapping[str, Scored]) -> tuple[str, str]:
    name = measure_of(drop.subject, measures)
    if name is None:
        raise unknown(f"measure that both runs have, in the allowed drop {drop.text!r}:", drop.subject, measures)
    # What stands behind the name and its dot
    score = drop.subject[len(name) + 1 :] or measures[name].headline
    if score not in measures[name].units:
        raise unknown(f"score of {name} that both runs have,", score, measures[name].units)
    if measures[name].betters[score] == "neither":
        raise BadValue(
            f"allowed drop {drop.text!r}: expected a score that says how robust an encoder is, got {name}.{score}, "
            "which describes it: neither direction is worse; hold another one"
        )
    return name, score


def _margin(drop: AllowedDrop, measure: Scored, score: str) -> Margin:
    """Return what an amount means for a score."""
    share = measure.units[score] == "share"
    start = f"allowed drop {drop.text!r}: expected"
    if drop.kind == "points" and not share:
        raise BadValue(f"{start} percent or an amount in {measure.units[score]}, as this is not a share, got points")
    # Percent of a share are points; of a radius or a distance they can only be relative
    if drop.kind == "% relative" or (drop.kind == "%" and not share):
        if drop.amount >= 100 and measure.betters[score] == "higher":
            raise BadValue(f"{start} less than 100 % of the baseline, got {drop.amount:g} %, which nothing exceeds")
        return Margin(drop.amount / 100, True, f"{drop.amount:g} % of the baseline")
    if drop.kind:
        if drop.amount >= 100:
            raise BadValue(f"{start} less than 100 points of a share, got {drop.amount:g}, which nothing exceeds")
        return Margin(drop.amount / 100, False, f"{drop.amount:g} points")
    if share and drop.amount >= 1:
        raise BadValue(
            f"{start} less than 1, for this is a share, got {drop.amount:g}, which nothing exceeds; did you mean "
            f"{drop.amount:g} %?"
        )
    return Margin(drop.amount, False, f"{drop.amount * 100:g} points" if share else f"{drop.amount:g}")
