"""Values that were measured of encoders that people know, and which of them a number is like."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from holdfast.runtime.sizes import size_in_words
from holdfast.storage.record import DataEntry, EncoderEntry, MeasureEntry


@dataclass(frozen=True)
class Reference:
    """The headline of a measure of an encoder that people know, as Holdfast measured it.

    Attributes:
        name: of the encoder, for somebody who has no file of it.
        images: what they were, such as "photos".
        measure: which measure.
        norm: of its ball.
        failure: what counted as a failure, as a record has it.
        input: channels, height and width of the images.
        population: how many images there were.
        attacked: how many of them were attacked.
        passes: of the search, for each image.
        value: in pixels.
        low: lower end of its interval.
        high: upper end.
        encoder: the fingerprint of the encoder.
        record: the seal of the record that says so.
    """

    name: str
    images: str
    measure: str
    norm: str
    failure: Mapping[str, Any]
    input: tuple[int, ...]
    population: int
    attacked: int
    passes: int
    value: float
    low: float
    high: float
    encoder: str
    record: str


@cache
def references() -> tuple[Reference, ...]:
    """Return all of them."""
    table = tomllib.loads((files("holdfast.report") / "references.toml").read_text(encoding="utf-8"))
    return tuple(Reference(**(row | {"input": tuple(row["input"])})) for row in table["reference"])


def comparable(measure: MeasureEntry, encoder: EncoderEntry, data: DataEntry) -> list[Reference]:
    """Return what a headline may be held against: one norm and failure, as many passes, as many images of one shape.

    The encoder itself is left out. Radii fall as the population grows, and in ℓ2 they grow with the image.
    """
    part = measure.part
    question = (part["name"], part.get("ball", {}).get("name"), part.get("failure"), part.get("steps"))
    images = (tuple(encoder.input or ()), data.images)
    return [
        reference
        for reference in references()
        if (reference.measure, reference.norm, reference.failure, reference.passes) == question
        and (reference.input, reference.population) == images
        and reference.encoder != encoder.fingerprint
    ]


def likeness(measure: MeasureEntry, encoder: EncoderEntry, data: DataEntry) -> str:
    """Return the number of a known encoder to hold a headline against, in a sentence; "" where there is none.

    Of those whose intervals overlap, the nearest; else the next one below and the next one above.
    """
    score = measure.headline_score
    if not score or not measure.in_words or not score.value or score.low is None or score.high is None:
        return ""
    value, low, high = score.value, score.low, score.high
    known = sorted(comparable(measure, encoder, data), key=lambda reference: reference.value)

    def describe(reference: Reference) -> str:
        return f"{reference.name} {size_in_words(reference.value, measure.levels)} on {reference.images}"

    if alike := [reference for reference in known if reference.low <= high and low <= reference.high]:
        nearest = min(alike, key=lambda reference: abs(math.log(reference.value / value)))
        return f"With the same settings: {describe(nearest)}."
    below, above = ([r for r in known if (r.value < value) == lower] for lower in (True, False))
    return f"With the same settings: {describe(below[-1])}, {describe(above[0])}." if below and above else ""
