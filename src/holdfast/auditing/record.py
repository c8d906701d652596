"""The record: one JSON file that says what was asked, what was found, what it cost and how to do it again."""

import importlib.metadata
import itertools
import platform
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import torch

import holdfast
from holdfast.auditing.balls import describe_balls, shape_of
from holdfast.auditing.images import AuditImages
from holdfast.auditing.plan import Plan
from holdfast.core import Chart, Encoder, Geometry, Measure, Passes, registry
from holdfast.core.chart import chart_data
from holdfast.core.geometry import BY_SHAPES
from holdfast.runtime.version import VERSION
from holdfast.storage.chart import AnyChart
from holdfast.storage.entry import PassesEntry, as_json, read_json
from holdfast.storage.record import (
    Alike,
    DataEntry,
    EncoderEntry,
    Environment,
    GeometryEntry,
    MeasureEntry,
    Software,
    Train,
)

PACKAGES = (
    "numpy", "scipy", "scikit-learn", "pillow", "torchvision", "timm", "transformers", "open_clip_torch", "onnx",
    "onnxruntime",
)  # fmt: skip

IMAGES = "tables/images.parquet"
"""The table of the population: the id of every image, in their order."""


def data_entry(plan: Plan, images: AuditImages, labels: str | None, facts: Mapping[str, str]) -> DataEntry:
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
        learned_from = Train(
            spec=plan.train, images=len(train), left_out=images.left_out, notes=list(train.notes), **facts
        )
    return DataEntry(
        spec=plan.data,
        synthetic=plan.synthetic,
        description=str(tested),
        available=tested.available,
        images=len(tested),
        attacked=plan.count_attacked_now(len(tested)),
        fingerprint=tested.fingerprint,
        labels=labels,
        train=learned_from,
        notes=[*images.notes, *tested.notes],
        runs_left_out=tested.runs,
        skipped=[list(item) for item in tested.unreadable],
        balls=describe_balls(plan.measures, shape_of(tested)),
        duplicates=[Alike(image=image, like=like, levels=levels) for image, like, levels in tested.duplicates],
        duplicates_left_out=tested.skips_duplicates,
        table=IMAGES,
    )


def encoder_entry(encoder: Encoder, slug: str, geometry: Geometry | None) -> EncoderEntry:
    """Return who the encoder is: weights, normalisation, preprocessing; `geometry` is how its pictures are rendered."""
    rendered = None
    if geometry is not None:
        assumed = geometry.in_words if geometry.source == BY_SHAPES else ""
        rendered = msgspec.convert(asdict(geometry) | {"assumed": assumed}, GeometryEntry)
    return EncoderEntry(
        name=encoder.name,
        slug=slug,
        fingerprint=encoder.fingerprint,
        parameters=sum(p.numel() for p in encoder.module.parameters()),
        mean=encoder.mean,
        std=encoder.std,
        origin={key: str(value) for key, value in encoder.origin.items()},
        geometry=rendered,
    )


def measure_entry(measure: Measure, called: str, alone: Passes, **answer: Any) -> MeasureEntry:
    """Return what a measure asks, what it is called, and its answer: further fields of the entry.

    Raises:
        ValueError: something that no record can hold, which one's own measure may answer.
    """
    entry = MeasureEntry(
        part=registry.spec(measure),
        title=called,
        family=registry.about_folder(type(measure)),
        question=measure.question,
        how_to_read=measure.how_to_read,
        better=measure.better,
        unit=measure.unit,
        reference=measure.reference,
        needs_labels=measure.needs_labels,
        corruptions=list(measure.corruptions),
        in_brief=measure.in_brief,
        gloss=measure.gloss,
        levels=measure.in_255ths,
        passes_alone=passes_entry(alone),
        **answer,
    )
    read_json(as_json(entry), MeasureEntry)  # fails here, alone, and not where the whole record is written
    return entry


def failure_entry(measure: Measure, name: str, called: str, alone: Passes, error: str, code: str) -> MeasureEntry:
    """Return what a measure asks, and why it failed; where that is what it says of itself, its name alone."""
    try:
        return measure_entry(measure, called, alone, error=error, error_code=code)
    except (ValueError, TypeError):
        spec = registry.spec(measure)
        return MeasureEntry(part=spec, title=name, better="higher", unit="", error=error, error_code=code)


def chart_entry(chart: Chart, columns: Collection[str] = (), scores: Collection[str] = ()) -> AnyChart:
    """Return a chart as the record has it, see `core.chart.chart_data`."""
    return msgspec.convert(as_json(chart_data(chart, columns, scores)), AnyChart)


def picture_entries(kind: str, entries: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return what an observation says of its pictures as the record has it, in an encoder's field of that name."""
    return msgspec.convert(as_json(entries), _PICTURES[kind])


_PICTURES = {field.name: field.type for field in msgspec.structs.fields(EncoderEntry)}


def passes_entry(passes: Passes) -> PassesEntry:
    """Return passes as the record has them."""
    return PassesEntry(forward=passes.forward, backward=passes.backward, bounds=passes.bounds)


def environment() -> Environment:
    """Return versions of what computed the numbers."""
    versions = {package: version for package in PACKAGES if (version := _version(package))}
    return Environment(
        python=platform.python_version(), torch=torch.__version__, platform=platform.platform(), packages=versions
    )


@cache
def _version(package: str) -> str | None:
    """Return the version of a package, or None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def software() -> Software:
    """Return the version of Holdfast, in a checkout its git revision, and which files of a user's own were run."""
    folder = Path(holdfast.__file__).parent
    try:
        command = ["git", "-C", str(folder), "log", "-1", "--format=%h", "--", str(folder)]
        revision = subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip() or None
    except (OSError, subprocess.TimeoutExpired):
        revision = None
    return Software(version=VERSION, git=revision, parts=registry.files())


def slugs(names: list[str]) -> list[str]:
    """Return a file name for each name, short and all different."""
    result: list[str] = []
    for name in names:
        slug = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[-60:] or "it"
        choices = itertools.chain([slug], (f"{slug}-{number}" for number in itertools.count(2)))
        result.append(next(choice for choice in choices if choice not in result))
    return result
