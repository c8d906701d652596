"""What decides the numbers of a record: two that share it can be compared image by image."""

import json
from collections.abc import Callable
from typing import Any

from holdfast.storage.record import MeasureEntry, Record, Train

PRECISION = "float32"
"""In which encoders run where a plan says nothing."""

CONDITIONS: dict[str, Callable[[Record], Any]] = {
    "images (fingerprint)": lambda record: record.data.fingerprint,
    "number of images": lambda record: record.data.images,
    "attacked images": lambda record: record.data.attacked,
    "seed": lambda record: record.plan.seed,
    "precision": lambda record: record.plan.precision or PRECISION,
}
"""What decides every number of an audit, beside the encoder and the measure; the schema is looked at when reading."""


def conditions(record: Record) -> dict[str, Any]:
    """Return the conditions that two audits must share to be compared, by name."""
    return {name: read(record) for name, read in CONDITIONS.items()}


def read_supervision(record: Record) -> dict[str, Any]:
    """Return the labels of a record's images, and the images that its probes learn from, both by their fingerprints."""
    data, train = record.data, record.data.train or Train()
    return {
        "labels": data.labels, "training images": train.fingerprint,
        "number of training images": train.images, "training labels": train.labels,
    }  # fmt: skip


def question(record: Record, measure: MeasureEntry) -> str:
    """Return a key that measures of several audits share where they ask the same: the part, and labels if read."""
    labels = read_supervision(record) if measure.needs_labels else None
    return json.dumps([measure.part, labels], sort_keys=True)
