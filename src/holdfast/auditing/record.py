"""The record: one JSON file that says what was asked, what was found, what it cost and how to do it again."""

import importlib.metadata
import itertools
import math
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import torch

import holdfast
from holdfast.auditing.balls import describe_balls, shape_of
from holdfast.auditing.images import AuditImages
from holdfast.auditing.plan import Plan
from holdfast.core import Encoder, Geometry, Measure, Passes, registry
from holdfast.core.geometry import BY_SHAPES
from holdfast.core.naming import title
from holdfast.runtime.version import VERSION

PACKAGES = (
    "numpy", "scipy", "scikit-learn", "pillow", "torchvision", "timm", "transformers", "open_clip_torch", "onnx",
    "onnxruntime",
)  # fmt: skip

IMAGES = "tables/images.parquet"
"""The table of the population: the id of every image, in their order."""


def data_entry(plan: Plan, images: AuditImages, labels: str | None, facts: Mapping[str, str]) -> dict[str, Any]:
    """Return what the images are, and how large the balls of the plan are on them.

    Args:
        plan: where they come from.
        images: the images.
        labels: the fingerprint of their labels; None where none is read.
        facts: the fingerprints of training images and of their labels.
    """
    tested, train = images.tested, images.train
    learned_from = None
    if train is not None:
        learned_from = {"spec": plan.train, "images": len(train), "left_out": images.left_out, **facts}
        learned_from["notes"] = train.notes
    return {
        "spec": plan.data,
        "synthetic": plan.synthetic,
        "description": str(tested),
        "available": tested.available,
        "images": len(tested),
        "attacked": plan.count_attacked_now(len(tested)),
        "fingerprint": tested.fingerprint,
        "labels": labels,
        "train": learned_from,
        "notes": [*images.notes, *tested.notes],
        "runs_left_out": tested.runs,
        "skipped": [list(item) for item in tested.unreadable],
        "balls": describe_balls(plan.measures, shape_of(tested)),
        "duplicates": [{"image": image, "like": like, "levels": levels} for image, like, levels in tested.duplicates],
        "duplicates_left_out": tested.skips_duplicates,
        "table": IMAGES,
    }


def encoder_entry(encoder: Encoder, slug: str, geometry: Geometry | None) -> dict[str, Any]:
    """Return who the encoder is: weights, normalisation, preprocessing; `geometry` is how its pictures are rendered."""
    assumed = {"assumed": geometry.in_words} if geometry is not None and geometry.source == BY_SHAPES else {}
    return {
        "name": encoder.name,
        "slug": slug,
        "fingerprint": encoder.fingerprint,
        "parameters": sum(p.numel() for p in encoder.module.parameters()),
        "mean": encoder.mean,
        "std": encoder.std,
        "origin": {key: str(value) for key, value in encoder.origin.items()},
        "geometry": asdict(geometry) | assumed if geometry else None,
        "error": None,
    }


def measure_entry(measure: Measure, name: str, alone: Passes, left_out: Mapping[str, str]) -> dict[str, Any]:
    """Return what a measure asks, without any answer."""
    return {
        "part": registry.spec(measure),
        "title": title(measure, name),
        "family": registry.about_folder(type(measure)),
        "question": measure.question,
        "how_to_read": measure.how_to_read,
        "better": measure.better,
        "unit": measure.unit,
        "reference": measure.reference,
        "needs_labels": measure.needs_labels,
        "corruptions": list(measure.corruptions),
        "left_out": dict(left_out),
        "in_words": None,
        "in_brief": measure.in_brief,
        "passes_alone": passes_entry(alone),
        "scores": {},
        "charts": [],
        "headline": None,
        "column": None,
        "table": None,
        "seconds": 0.0,
        "error": None,
        "not_certified": None,
    }


def passes_entry(passes: Passes) -> dict[str, int]:
    """Return passes as JSON data; bound propagations only where there are any."""
    bounds = {"bounds": passes.bounds} if passes.bounds else {}
    return {"forward": passes.forward, "backward": passes.backward} | bounds


def environment() -> dict[str, Any]:
    """Return versions of what computed the numbers."""
    versions = {package: version for package in PACKAGES if (version := _version(package))}
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "packages": versions,
    }


@cache
def _version(package: str) -> str | None:
    """Return the version of a package, or None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def software() -> dict[str, Any]:
    """Return the version of Holdfast, in a checkout its git revision, and which files of a user's own were run."""
    folder = Path(holdfast.__file__).parent
    try:
        command = ["git", "-C", str(folder), "log", "-1", "--format=%h", "--", str(folder)]
        revision = subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip() or None
    except (OSError, subprocess.TimeoutExpired):
        revision = None
    return {"version": VERSION, "git": revision, "parts": registry.files()}


def slugs(names: list[str]) -> list[str]:
    """Return a file name for each name, short and all different."""
    result: list[str] = []
    for name in names:
        slug = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[-60:] or "it"
        choices = itertools.chain([slug], (f"{slug}-{number}" for number in itertools.count(2)))
        result.append(next(choice for choice in choices if choice not in result))
    return result


def finite(value: Any) -> Any:
    """Return JSON data with numbers that are not finite replaced by None: JSON has no word for them."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
