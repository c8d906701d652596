"""What decides the numbers of a record: two that share it can be compared image by image."""

import json
from collections.abc import Callable, Mapping
from typing import Any

PRECISION = "float32"
"""In which encoders run where a plan says nothing."""

CONDITIONS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "images (fingerprint)": lambda record: record["data"]["fingerprint"],
    "number of images": lambda record: record["data"]["images"],
    "attacked images": lambda record: record["data"]["attacked"],
    "seed": lambda record: record["plan"]["seed"],
    "precision": lambda record: record["plan"].get("precision") or PRECISION,
}
"""What decides every number of an audit, beside the encoder and the measure; the schema is looked at when reading."""


def conditions(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conditions that two audits must share to be compared, by name."""
    return {name: read(record) for name, read in CONDITIONS.items()}


def read_supervision(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels of a record's images, and the images that its probes learn from, both by their fingerprints."""
    data, train = record["data"], record["data"].get("train") or {}
    return {
        "labels": data.get("labels"), "training images": train.get("fingerprint"),
        "number of training images": train.get("images"), "training labels": train.get("labels"),
    }  # fmt: skip


def question(record: Mapping[str, Any], measure: Mapping[str, Any]) -> str:
    """Return a key that measures of several audits share where they ask the same: the part, and labels if read."""
    labels = read_supervision(record) if measure.get("needs_labels") else None
    return json.dumps([measure["part"], labels], sort_keys=True)
