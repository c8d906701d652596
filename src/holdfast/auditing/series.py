"""Checkpoints of one training in order: `series:FOLDER` becomes one encoder for each, and what they did on the way."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import torch

from holdfast.core import Table
from holdfast.core.source_spec import parse
from holdfast.numerics import statistics
from holdfast.numerics.geometry.fluctuation import flipping, semantic_fluctuation
from holdfast.numerics.statistics.jackknife import over_classes
from holdfast.runtime.checked import Checked
from holdfast.runtime.doors import real
from holdfast.runtime.errors import BadData, BadValue, Missing, NotEnough
from holdfast.sources.encoders import suffixes
from holdfast.storage.record import FluctuationEntry, SeriesEntry

PREFIX = "series"


@dataclass(frozen=True)
class Series(metaclass=Checked):
    """Encoders of one training, in the order of the training.

    Attributes:
        name: how the series is called.
        encoders: their specs; each is among the plan's.
    """

    name: str
    encoders: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.encoders) < 2 or len(set(self.encoders)) < len(self.encoders):
            raise BadValue(
                f"series {self.name!r}: expected two different checkpoints or more, got {', '.join(self.encoders)}"
            )


def expand(specs: Iterable[str]) -> tuple[tuple[str, ...], tuple[Series, ...]]:
    """Return encoder specs with every `series:FOLDER?pattern=*.safetensors&key=value` replaced by its checkpoints.

    They stand in natural order (epoch2 before epoch10) and are called as their files; with `label=NAME`, NAME/FILE. All
    other options are passed on to each.
    """
    encoders: list[str] = []
    series: list[Series] = []
    for spec in specs:
        if not spec.lower().startswith(f"{PREFIX}:"):
            encoders.append(spec)
            continue
        series.append(_read_series(spec))
        encoders += series[-1].encoders
    return tuple(encoders), tuple(series)


def _read_series(spec: str) -> Series:
    """Return the series of checkpoints that a spec names, each a spec itself."""
    # The files, in their natural order
    _, name, options = parse(spec)
    folder, pattern, label = Path(name), options.pop("pattern", "*.safetensors"), options.pop("label", None)
    if not folder.is_dir():
        raise Missing(f"{spec}: expected a folder of checkpoints, got {name!r}")
    try:
        files = sorted((path for path in folder.glob(pattern) if path.is_file()), key=lambda path: natural(str(path)))
    except (ValueError, NotImplementedError) as error:
        raise BadValue(f"{spec}: expected a pattern of files such as *.safetensors, got {pattern!r}") from error
    if len(files) < 2:
        raise NotEnough(
            f"{spec}: expected two checkpoints or more that fit {pattern!r}, got {len(files)} in {name!r}; change "
            "?pattern= or name a single file as file:PATH"
        )

    # One spec for each, with the options of the series
    passed_on = "".join(f"&{key}={quote(value, safe='/,:*')}" for key, value in options.items())
    specs, openers = [], suffixes()
    for file in files:
        if file.suffix.lower() not in openers:
            ends = " or ".join(sorted(openers))
            raise BadData(f"{spec}: expected files that end in {ends}, got {file.name!r}")
        stem = file.relative_to(folder).with_suffix("").as_posix()
        checkpoint = quote(stem if label is None else f"{label}/{stem}", safe="/")
        specs.append(f"{openers[file.suffix.lower()]}:{file}?label={checkpoint}{passed_on}")
    return Series(label or real(folder).name, tuple(specs))


def natural(text: str) -> list[str | int]:
    """Return a key by which numbers in names are ordered as numbers: epoch2 before epoch10."""
    parts = re.split(r"([0-9]+)", text)
    return [int(part) if number % 2 else part for number, part in enumerate(parts)]


def series_entries(
    plan_series: Iterable[Series],
    names: Mapping[str, str],
    measures: Collection[str],
    tables_of: Callable[[str], Mapping[str, Table]],
) -> list[SeriesEntry]:
    """Return series as the record has them: names of encoders, whose entries hold all scores, and fluctuations."""
    return [
        SeriesEntry(
            name=series.name,
            encoders=[names[spec] for spec in series.encoders],
            fluctuation={
                measure: fluctuation([names[s] for s in series.encoders], tables)
                for measure in measures
                if any(map({"right", "label"}.issubset, (tables := tables_of(measure)).values()))
            },
        )
        for series in plan_series
    ]


def fluctuation(names: list[str], tables: Mapping[str, Table]) -> FluctuationEntry:
    """Return how much the accuracies of classes fluctuate, of a measure that says which images are right."""
    lost = [name for name in names if name not in tables]
    if lost:
        return FluctuationEntry(problem=f"not known, because the measure failed for {', '.join(lost)}")
    right = torch.stack([tables[name]["right"] for name in names])
    labels = tables[names[0]]["label"]
    moved = semantic_fluctuation(right, labels)
    condition = "given what the probes learned; of the value with its noise"
    mean = statistics.mean(over_classes(moved, labels), condition=condition, most=1.0)
    classes: dict[str, float | None] = {
        f"class {label}": float(moved[labels == label].mean()) for label in labels.unique().tolist()
    }
    return FluctuationEntry(mean=mean, noise=float(flipping(right, labels).mean()), classes=classes)
