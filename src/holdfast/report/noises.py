"""The learned noises of a run, as data for the report: charts, legends and pictures of draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.report.charts.bars import bars, component_bars
from holdfast.report.charts.dots import dots
from holdfast.report.charts.figure import colour, marker
from holdfast.report.charts.heat import heat
from holdfast.report.charts.lines import Curve, Horizontal, lines
from holdfast.report.folder import read_column
from holdfast.report.numbers import finite, number, plural
from holdfast.report.panel import Legend, Panel, nan
from holdfast.report.pictures import Shot, shot
from holdfast.report.verdict import titles
from holdfast.runtime.errors import HoldfastError
from holdfast.storage.record_file import RunFiles

GROUPS = 12
"""Groups that get a colour of their own, the most frequent; the others are grey."""
ROWS = 12
"""Rows of the heat map for each group, at most."""


@dataclass(frozen=True)
class Sample:
    """Pictures of one image: clean, and each draw with its difference."""

    id: str
    group: str
    shots: list[Shot]


@dataclass(frozen=True)
class Noise:
    """All that is shown of one noise; `problem` says why there are no pictures."""

    title: str
    serves: str
    file: str | None
    panels: list[Panel] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    caption: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Learned:
    """The noises that were learned for one encoder; `training` compares those with one failure and one ball."""

    series: int
    name: str
    training: list[Panel]
    noises: list[Noise]


def learned_noises(record: Mapping[str, Any], folder: RunFiles) -> list[Learned]:
    """Return what is shown of the learned noises, for every encoder that has any."""
    names = titles(record)
    return [
        Learned(
            series,
            encoder["name"],
            _training(f"noise{series}", encoder["noises"]),
            [_noise(f"noise{series}-{i}", entry, names, folder) for i, entry in enumerate(encoder["noises"])],
        )
        for series, encoder in enumerate(record["encoders"])
        if encoder.get("noises")
    ]


def _setting(entry: Mapping[str, Any]) -> str:
    return f"{entry['failure']}, {entry['ball']['name']} {entry['ball']['radius']:g}"


def _training(key: str, entries: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """Return two panels for all noises with one failure and one ball: draws that hold, and entropy ratios."""
    panels = []
    for i, setting in enumerate(dict.fromkeys(map(_setting, entries))):
        same = [entry for entry in entries if _setting(entry) == setting]
        legend: Legend = [(series, entry["structure"]) for series, entry in enumerate(same)]
        for column, label, unit, words in (
            ("chance", "draws that hold", "share", "The share of training draws that hold"),
            ("entropy", "entropy ratio", "ratio", "The entropy ratio of the mixture weights"),
        ):
            values = {s: [nan(value) for value in e["training"][column]] for s, e in enumerate(same)}
            values = {s: v for s, v in values.items() if np.isfinite(v).any()}  # one component has no entropy ratio
            if not values:
                continue
            curves = [Curve(range(1, len(v) + 1), v, (), (), colour(s), marker(s)) for s, v in values.items()]
            last = ", ".join(f"{legend[s][1]} {number(v[-1], unit)}" for s, v in values.items())
            panels.append(Panel(
                f"{label.capitalize()}: {setting}",
                lines(f"{key}-{column}{i}", curves, Horizontal("epoch", whole=True), label=label, unit=unit),
                f"{words} against epochs, {setting}. In the last epoch: {last}.",
                legend=[legend[s] for s in values],
            ))  # fmt: skip
    return panels


def _noise(key: str, entry: Mapping[str, Any], names: Mapping[str, str], folder: RunFiles) -> Noise:
    title = f"{entry['structure'].capitalize()}: {_setting(entry)}"
    serves = ", ".join(names.get(name, name) for name in entry["measures"])
    if entry.get("problem"):
        return Noise(title, serves, entry["file"], problem=entry["problem"])
    return Noise(
        title=title,
        serves=serves,
        file=entry["file"],
        panels=[*_maps(entry, folder), _heat_map(key, entry, folder), *_mixture(key, entry, folder)],
        samples=[_sample(picture, entry, folder) for picture in entry["pictures"]],
        caption=f"differences are amplified {_times(entry)}; grey is no change",
    )


def _times(entry: Mapping[str, Any]) -> str:
    return f"{entry['amplified']:g} times" if finite(entry["amplified"]) else "an unknown number of times"


def _without(title: str, what: str) -> Panel:
    """Return a panel that says why there is no chart."""
    return Panel(title, notes=[f"Not all {what} are finite numbers, so there is no chart."])


def _read(
    title: str, entry: Mapping[str, Any], table: str, columns: Sequence[str], folder: RunFiles
) -> np.ndarray | Panel:
    """Return columns of a table, [rows, columns], or a panel that says why not."""
    try:
        return np.column_stack([read_column(folder, table, column) for column in columns])
    except HoldfastError as error:
        return Panel(title, notes=[str(error)])


def _maps(entry: Mapping[str, Any], folder: RunFiles) -> list[Panel]:
    """Return the draws on their principal components and by t-SNE, coloured by group."""
    shares = [f"{number(share, 'share')} of the variance" for share in entry["explained"]]
    panels = []
    for prefix, title, axes, origin in (
        ("pca", "Perturbations, principal components", [f"first component, {shares[0]}", f"second, {shares[1]}"], True),
        ("tsne", "Perturbations, t-SNE", ["t-SNE: only neighbourhoods have a meaning", ""], False),
    ):
        found = _read(title, entry, entry["table"], ["group", f"{prefix}_x", f"{prefix}_y"], folder)
        if isinstance(found, Panel):
            panels.append(found)
            continue
        if not np.isfinite(found).all():
            panels.append(Panel(title, notes=["Too few of the perturbations differ from each other."]))
            continue
        legend, points = _coloured(entry["groups"], found[:, 0].astype(int), found[:, 1:])
        cross = tuple(entry["origin"]) if origin and all(map(finite, entry["origin"])) else None
        svg = dots(points, x=axes[0], y=axes[1], origin=cross)
        alt = (
            f"{title}: {plural(len(found), 'draw')} for {plural(entry['images'], 'image')}, by {entry['grouped']}."
            + (f" {axes[0]}; {axes[1]}." if origin else "")
        )
        panels.append(Panel(title, svg, alt, legend=legend))
    return panels


def _coloured(
    names: Sequence[str], groups: np.ndarray, points: np.ndarray
) -> tuple[Legend, list[tuple[int | None, np.ndarray]]]:
    """Return legend and points of the most frequent groups, and of all others as one."""
    shown = _frequent(groups)
    legend: Legend = [(series, names[group]) for series, group in enumerate(shown)]
    parts: list[tuple[int | None, np.ndarray]] = [(s, points[groups == group]) for s, group in enumerate(shown)]
    rest = points[~np.isin(groups, shown)]
    return ([*legend, (None, "others")], [(None, rest), *parts]) if len(rest) else (legend, parts)


def _frequent(groups: np.ndarray) -> list[int]:
    """Return the most frequent groups, in their own order."""
    found, counts = np.unique(groups, return_counts=True)
    return sorted(found[np.argsort(-counts, kind="stable")[:GROUPS]].tolist())


def _heat_map(key: str, entry: Mapping[str, Any], folder: RunFiles) -> Panel:
    title = f"Perturbations by {entry['grouped']}"
    columns = [f"pixel_{i:02d}" for i in range(entry["cells"])]
    found = _read(title, entry, entry["table"], ["group", "draw", *columns], folder)
    if isinstance(found, Panel):
        return found
    if not np.isfinite(found).all():
        return _without(title, "perturbations")
    groups, draw, pixels = found[:, 0].astype(int), found[:, 1], found[:, 2:]
    order = np.argsort(draw, kind="stable")  # the first draw of every image comes before the second one of any
    rows = [order[groups[order] == group][:ROWS] for group in _frequent(groups)]
    bands = [(entry["groups"][group], len(some)) for group, some in zip(_frequent(groups), rows, strict=True)]
    values = pixels[np.concatenate(rows)]
    largest = number(float(np.abs(values).max()))
    svg = heat(f"{key}-heat", values, bands, x="pixel, row by row, after averaging")
    notes = [f"A row is a draw. Blue is darker, orange brighter; the fullest colour is ±{largest}."]
    return Panel(title, svg, f"{title}: one band each of up to {ROWS} draws, within ±{largest}.", notes)


def _mixture(key: str, entry: Mapping[str, Any], folder: RunFiles) -> list[Panel]:
    """Return the mixture's weights, its means, and the covariance of its heaviest component."""
    covariance, mean = entry["covariance"], np.array(entry["weights"]["mean"], dtype=float)  # null becomes NaN
    panels = [_weights(key, entry, mean, folder)]
    title, size = "Means of the components", entry["means"]["size"]
    found = _read(title, entry, entry["means"]["table"], [f"axis_{i:02d}" for i in range(size)], folder)
    if not isinstance(found, Panel) and not (np.isfinite(found).all() and np.isfinite(mean).all()):
        found = _without(title, "means and weights")
    if not isinstance(found, Panel):
        svg = component_bars(f"{key}-means", found, mean)
        alt = f"{title} along {plural(size, 'principal component')} of the latent draws."
        found = Panel(title, svg, alt)
    panels.append(found)
    title, size = "Covariance of the heaviest component", covariance["size"]
    found = _read(title, entry, covariance["table"], [f"latent_{i:02d}" for i in range(size)], folder)
    if not isinstance(found, Panel) and not np.isfinite(found).all():
        found = _without(title, "covariances")
    if not isinstance(found, Panel):
        block = covariance["block"]
        largest = number(float(np.abs(found).max()))
        each = f"Each cell is the mean over {block} × {block} latent numbers. " if block > 1 else ""
        notes = [f"Mean over images. {each}Blue is below 0, orange above; the fullest colour is ±{largest}."]
        svg = heat(f"{key}-covariance", found, x="latent numbers")
        found = Panel(title, svg, f"{title}, {size} × {size} cells within ±{largest}.", notes)
    return [*panels, found]


def _weights(key: str, entry: Mapping[str, Any], mean: np.ndarray, folder: RunFiles) -> Panel:
    """Return the mixture weights of all images and, where they differ, of the most frequent groups."""
    title, each = "Mixture weights", entry["weights"]["groups"]
    shown: list[int] = []
    if each:
        found = _read(title, entry, entry["table"], ["group"], folder)
        if isinstance(found, Panel):
            return found
        shown = _frequent(found[:, 0].astype(int))
    rows = np.array([mean, *(each[group] for group in shown)], dtype=float)
    if not np.isfinite(rows).all():
        return _without(title, "mixture weights")
    names = ["all", *(entry["groups"][group] for group in shown)] if each else ["all images"]
    legend: Legend = [(i, f"component {i + 1}") for i in range(len(mean))]
    shares = ", ".join(number(share, "share") for share in mean.tolist())
    svg = bars(f"{key}-weights", names, rows)
    return Panel(title, svg, f"Mixture weights, mean over the images: {shares}.", legend=legend)


def _sample(picture: Mapping[str, Any], entry: Mapping[str, Any], folder: RunFiles) -> Sample:
    name, group = picture["id"], entry["groups"][picture["group"]]
    shots = [shot(folder, picture["clean"], "clean", f"{name}: clean image")]
    for i, draw in enumerate(picture["draws"], 1):
        shots.append(shot(folder, draw["disturbed"], f"draw {i}", f"{name}: draw {i} of the noise"))
        alt = f"{name}: what draw {i} changes, amplified {_times(entry)}"
        shots.append(shot(folder, draw["difference"], f"difference {i}", alt))
    return Sample(name, group, shots)
