"""Records of older versions, as today's: one function from each schema to the next, applied when a record is read.

What is on disk stays as it was written. A function says of what its schema did not record no more than that schema
meant: the safe side, where numbers depend on it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.storage.standing import settle

Record = Mapping[str, Any]

CONSEQUENCES = {
    "input_range": "void", "frozen": "void", "batch_independence": "void", "collapse": "void",
    "gradient_health": "one side", "steps_converged": "one side", "stronger_attack": "one side", "masking": "one side",
    "large_radius": "one side", "precision": "one side",
}  # fmt: skip
"""What a failed check of schema 1 means for the numbers beside it; all others are a caution."""


def _with_standing(record: Record) -> Record:
    """From 1 to 2: every score names the checks that it depends on, and says what it is where one of them failed.

    Schema 1 had the checks of an encoder beside all its numbers, and did not say which way a weak search errs: a number
    depends on all of them, and is void where one failed that concerns searches.
    """
    encoders = []
    for encoder in record["encoders"]:
        checks = {
            name: {"consequence": CONSEQUENCES.get(name, "caution"), "details": {}, **check}
            for name, check in encoder["checks"].items()
        }
        depends = {"checks": list(checks), "if_weak": "void"}
        measures = {
            name: {**measure, "scores": {title: {**score, **depends} for title, score in measure["scores"].items()}}
            for name, measure in encoder["measures"].items()
        }
        encoders.append(settle({**encoder, "checks": checks, "measures": measures}))
    return {**record, "encoders": encoders}


STEPS: tuple[Callable[[Record], Record], ...] = (_with_standing,)
"""From schema 1 to 2, and so on."""

SCHEMA = 1 + len(STEPS)
"""Version of the record's layout that is written."""


def migrated(record: Record) -> dict[str, Any]:
    """Return a record of an older schema as one of today's.

    Raises:
        KeyError, TypeError, AttributeError: what is no record of the schema that it names.
    """
    for step in STEPS[record["schema"] - 1 :]:
        record = step(record)
    return {**record, "schema": SCHEMA}
