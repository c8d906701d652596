"""Rehearse a paper's table: all of it, on tiny stand-ins, so that what would fail after a day fails at once."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch.nn.functional import interpolate

from holdfast.auditing.execute import INLINE
from holdfast.core import registry
from holdfast.core.engine import Engine
from holdfast.runtime.listener import Listener
from holdfast.sources.data.digits import train_images
from holdfast.storage.reproduction import UNASKED, Rehearsal
from holdfast.workflows.reproduce.claim import Cell
from holdfast.workflows.reproduce.recipe import Input, Line, Reproduction, find_placeholders
from holdfast.workflows.reproduce.run import reproduce
from holdfast.workflows.reproduce.table import REFERENCE

IMAGES = 60
"""Images of each set."""

LIMITS = {
    "images": IMAGES, "train_images": IMAGES, "test_images": IMAGES, "attacked": 8, "batch_size": IMAGES // 2,
    "epochs": 2, "seconds": 2.0, "threshold": 0.5, "draws": 5000, "distances": 5000, "examined": 4, "queries": 20,
    "first": 3, "steps": 5, "inside": 3, "leaf_steps": 3, "splits": 4,
}  # fmt: skip
"""Keys of audits, studies and trainings, and how large their numbers may be; a training of snapshots has its epochs.
Networks with random weights pass no high threshold accuracy; eight digits are of more than five classes (top-5)."""

COSTLY = ("measures", "attacks", "certifiers")
"""Kinds of parts that may take more than that where a table says nothing."""

SHORT = {"first": 8, "steps": 4, "tolerance": 0.02}
"""What measures of certified radii search: so many images, of some of which random weights know the class, in so many
steps, so exactly."""

CLASSES = {"known_as": [0, 1]}
"""Keys of measures that name classes of training images, and what these are called among digits."""

SIDES = {"MNIST": 28, "CIFAR": 32, "STL10": 96, "": 224}
"""Sides of images, by a part of their specs."""

SMALL = ("zoo:base_", "zoo:cnn_", "zoo:deep_", "zoo:digits")
"""Beginnings of the specs of networks that are small enough to stay."""


def rehearse(
    recipe: Reproduction, device: str = "cpu", engine: Engine = INLINE, listener: Listener | None = None
) -> Rehearsal:
    """Run a table to its end on digits in the shapes of its images and on small networks with random weights.

    All measures, attacks, trainings, cells and claims are those of the table; images, epochs, draws and the time of a
    proof are few. Nothing is read but the recipe, and nothing is written.
    """
    with TemporaryDirectory(prefix="holdfast-rehearsal-") as folder:
        small = stand_in(recipe, Path(folder))
        record = reproduce(small, Path(folder) / "run", device=device, engine=engine, listener=listener)
    cells = {
        (row.name, column.name): Cell(row.name, column.name, cell.score, why=cell.why)
        for row in record.rows
        for column, cell in zip(record.columns, row.cells, strict=True)
    }
    # Tiny stand-ins leave some shares undefined; only what got no number at all would fail with the true ones
    undefined = {cell.why for cell in cells.values() if cell.score and cell.value is None}
    empty = [f"{row}, {name}: {cell.why}" for (row, name), cell in cells.items() if not _is_resolved(cell, undefined)]
    lost = [claim.text for claim in recipe.claims if not all(_is_resolved(c, undefined) for c in claim.about(cells))]
    return Rehearsal(
        cells=len(cells),
        empty=tuple(empty),
        claims=len(recipe.claims),
        lost=tuple(lost),
        failures=tuple(record.failures),
        seconds=record.seconds,
    )


def _is_resolved(cell: Cell, undefined: Collection[str]) -> bool:
    """Whether a cell has a number, needs none, or has an undefined one: a share of no images, or what is made of it."""
    return cell.score is not None or cell.why in (REFERENCE, UNASKED) or cell.why in undefined


def stand_in(recipe: Reproduction, folder: Path) -> Reproduction:
    """Return a table whose inputs are tiny: digits as large as its images, written to a folder, and small networks."""
    audits = {name: _most("examined", "queries") | _shrink(table) for name, table in recipe.audits.items()}
    studies = {name: _shrink_training(table) for name, table in recipe.studies.items()}
    networks = _networks(recipe)
    # The shape of the images decides which small network reads them
    specs = " ".join(source.spec or "" for source in recipe.inputs.values())
    network = "mnist" if "MNIST" in specs else "224" if "size=224" in specs else "cifar"
    inputs, benchmarks = {}, _benchmarks(recipe)
    for number, (name, source) in enumerate(recipe.inputs.items()):
        if name in benchmarks:
            inputs[name] = replace(source, spec=str(folder / name))
        elif source.train is not None:
            inputs[name] = replace(source, train=_shrink_training(source.train))
        elif name in networks:
            inputs[name] = replace(source, spec=f"zoo:base_{network}?seed={number}")
        else:
            side = next(side for part, side in SIDES.items() if part in (source.spec or ""))
            channels, place = 1 if side == SIDES["MNIST"] else 3, folder / f"{name}.npz"
            _write_digits(place, number, side, channels)
            inputs[name] = replace(source, spec=f"{place}?size={224 if network == '224' else min(side, 32)}")
    for name, (data, corruptions) in benchmarks.items():
        _write_corrupted(folder / name, folder / f"{data}.npz", corruptions)
    # Of a training that is given there is one network, whichever checkpoints rows name
    given = {name for name in networks if recipe.inputs[name].train is None}
    rows = tuple(_without_checkpoint(row, given) for row in recipe.rows)
    return replace(recipe, inputs=inputs, audits=audits, studies=studies, rows=rows)


def _without_checkpoint(row: Line, given: set[str]) -> Line:
    """Return a row that finds its numbers at the encoder itself where it names a checkpoint of one that is given."""
    at = {key: str(value).partition("/")[0] if key == "encoder" else value for key, value in row.at.items()}
    return replace(row, at=at) if not given.isdisjoint(map(str, at.values())) else row


def _benchmarks(recipe: Reproduction) -> dict[str, tuple[str, list[str]]]:
    """Return inputs that are folders of corrupted images, with the input that they are made of and what befell it."""
    benchmarks: dict[str, tuple[str, list[str]]] = {}
    for table in recipe.audits.values():
        for threat in _reading(table.get("measures")):
            names = threat.get("each", {}).get("corruption", [threat.get("corruption")])
            benchmarks[find_placeholders(threat["files"])[0]] = find_placeholders(table["data"])[0], names
    return benchmarks


def _reading(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the tables, at any depth, that name `files` of an input."""
    if isinstance(value, Mapping) and find_placeholders(value.get("files")):
        yield value
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _reading(inner)


def _networks(recipe: Reproduction) -> set[str]:
    """Return the names of inputs that are networks: of audits, of studies, trained, or what trainings begin with."""
    encoders = [table.get("encoders", []) for table in recipe.audits.values()]
    begun = [table.get("encoder") for table in (*recipe.studies.values(), *map(_training, recipe.inputs.values()))]
    trained = [name for name, source in recipe.inputs.items() if source.train is not None]
    return (
        {name.partition("/")[0] for name in itertools.chain(*encoders)} | set(find_placeholders(begun)) | set(trained)
    )


def _training(source: Input) -> Mapping[str, Any]:
    return source.train or {}


def _shrink_training(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a table that trains networks, with batches smaller than the usual ones."""
    return _most("batch_size") | _shrink(table)


def _most(*keys: str) -> dict[str, float]:
    return {key: LIMITS[key] for key in keys}


def _shrink(table: Any, key: str = "") -> Any:
    """Return a table of an audit, a study or a training with few images and epochs, and small networks."""
    if key in CLASSES:
        return CLASSES[key]
    if isinstance(table, Mapping):
        for kind in COSTLY:
            if (name := table.get("name")) in registry.names(kind):
                usual = {key: field.default for key, field in registry.find(kind, name).__dataclass_fields__.items()}
                lowered = _most(*(k for k in LIMITS if k in usual and (usual[k] is None or usual[k] > LIMITS[k])))
                table = {**lowered, **table}
                table |= SHORT if usual.keys() >= SHORT.keys() else {}
        has_snapshots = bool(table.get("snapshots"))
        return {k: v if has_snapshots and k == "epochs" else _shrink(v, k) for k, v in table.items()}
    if isinstance(table, list):
        return [_shrink(value, key) for value in table]
    if key in LIMITS and isinstance(table, int | float):
        return min(table, LIMITS[key])
    if key == "encoder" and isinstance(table, str) and not table.startswith((*SMALL, "{")):
        return "zoo:base_cifar"
    return table


def _write_digits(place: Path, part: int, side: int, channels: int) -> None:
    """Write digits, as many of each class, enlarged."""
    images, labels = (column.roll(-part * IMAGES, 0) for column in train_images())
    # As many of each class, so that every probe learns all of them
    first = torch.cat([(labels == label).nonzero()[: IMAGES // 10, 0] for label in labels.unique()]).sort().values
    images, labels = images[first], labels[first]
    images = interpolate(images, size=(side, side)).repeat(1, channels, 1, 1)
    np.savez(place, images=images.permute(0, 2, 3, 1).numpy(), labels=labels.numpy())


def _write_corrupted(folder: Path, clean: Path, corruptions: Sequence[str]) -> None:
    """Write what stands in for CIFAR-10-C: images under noise, of the five severities one after the other."""
    folder.mkdir()
    with np.load(clean) as held:
        images, labels = held["images"], held["labels"]
    noise = np.random.default_rng(0).normal(size=images.shape)
    stacked = np.concatenate([images + severity * 0.02 * noise for severity in range(1, 6)])
    for name in corruptions:
        np.save(folder / f"{name}.npy", (255 * stacked.clip(0, 1)).astype(np.uint8))
    np.save(folder / "labels.npy", np.tile(labels, 5))
