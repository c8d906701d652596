"""The learned noises of a run, as data for the report: charts, legends and pictures of draws."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from holdfast.report.cells import nan
from holdfast.report.charts.bars import Bars, ComponentBars
from holdfast.report.charts.dots import Dots
from holdfast.report.charts.figure import Drawing, colour, marker
from holdfast.report.charts.heat import Heat
from holdfast.report.charts.lines import Curve, Horizontal, Lines
from holdfast.report.folder import read_column
from holdfast.report.numbers import finite, number, plural
from holdfast.report.panel import Legend, Panel
from holdfast.report.pictures import Shot, shot
from holdfast.report.verdict import titles
from holdfast.runtime.errors import HoldfastError
from holdfast.storage.entry import Count, Entry, Number, Values
from holdfast.storage.pictured import Covariance, Means, NoiseEntry, SampleEntry, Weights
from holdfast.storage.record import Record
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


class _Pictured(Entry, frozen=True, kw_only=True):
    """What the entry of a noise holds where there are pictures of it; see `NoiseEntry`."""

    images: Count
    grouped: str
    groups: list[str]
    table: str
    cells: Count
    origin: tuple[Number | None, Number | None]
    explained: Values
    weights: Weights
    means: Means
    covariance: Covariance
    pictures: list[SampleEntry]


@dataclass(frozen=True)
class Learned:
    """The noises that were learned for one encoder; `training` compares those with one failure and one ball."""

    series: int
    name: str
    training: list[Panel]
    noises: list[Noise]


def collect_noises(record: Record, folder: RunFiles) -> list[Learned]:
    """Return what is shown of the learned noises, for every encoder that has any."""
    names = titles(record)
    return [
        Learned(
            series,
            encoder.name,
            _training(f"noise{series}", encoder.noises),
            [_noise(f"noise{series}-{i}", entry, names, folder) for i, entry in enumerate(encoder.noises)],
        )
        for series, encoder in enumerate(record.encoders)
        if encoder.noises
    ]


def _setting(entry: NoiseEntry) -> str:
    return f"{entry.failure}, {entry.ball.name} {entry.ball.radius:g}"


def _training(key: str, entries: Sequence[NoiseEntry]) -> list[Panel]:
    """Return two panels for all noises with one failure and one ball: draws that hold, and entropy ratios."""
    panels = []
    for i, setting in enumerate(dict.fromkeys(map(_setting, entries))):
        # Noises that can be compared
        twins = [entry for entry in entries if _setting(entry) == setting]
        legend: Legend = [(series, entry.structure) for series, entry in enumerate(twins)]

        # A curve of each over its epochs, one chart for draws that hold and one for entropy
        chance, entropy = [e.training.chance for e in twins], [e.training.entropy for e in twins]
        for column, epochs, label, unit, words in (
            ("chance", chance, "draws that hold", "share", "The share of training draws that hold"),
            ("entropy", entropy, "entropy ratio", "ratio", "The entropy ratio of the mixture weights"),
        ):
            values = {s: [nan(value) for value in each] for s, each in enumerate(epochs)}
            values = {s: v for s, v in values.items() if np.isfinite(v).any()}  # one component has no entropy ratio
            if not values:
                continue
            curves = [
                Curve(range(1, len(v) + 1), v, (), (), colour(s), marker(s), name=legend[s][1])
                for s, v in values.items()
            ]
            last = ", ".join(f"{legend[s][1]} {number(v[-1], unit)}" for s, v in values.items())
            panels.append(Panel(
                f"{label.capitalize()}: {setting}",
                Lines(f"{key}-{column}{i}", curves, Horizontal("epoch", whole=True), label=label, unit=unit),
                f"{words} against epochs, {setting}. In the last epoch: {last}.",
                legend=[legend[s] for s in values],
            ))  # fmt: skip
    return panels


def _noise(key: str, entry: NoiseEntry, names: Mapping[str, str], folder: RunFiles) -> Noise:
    title = f"{entry.structure.capitalize()}: {_setting(entry)}"
    serves = ", ".join(names.get(name, name) for name in entry.measures)
    if entry.problem:
        return Noise(title, serves, entry.file, problem=entry.problem)
    drawn = msgspec.convert(entry, _Pictured, from_attributes=True)
    times = f"{entry.amplified:g} times" if finite(entry.amplified) else "an unknown number of times"
    return Noise(
        title=title,
        serves=serves,
        file=entry.file,
        panels=[*_maps(key, drawn, folder), _heat_map(key, drawn, folder), *_mixture(key, drawn, folder)],
        samples=[_sample(picture, drawn.groups, times, folder) for picture in drawn.pictures],
        caption=f"differences are amplified {times}; grey is no change",
    )


class _Undrawn(Exception):
    """Why there is no chart, in one sentence."""


def _panel(title: str, make: Callable[[], tuple[Drawing, str, list[str], Legend]]) -> Panel:
    """Return a chart from what `make` returns (picture, description, notes, legend), or why there is none."""
    try:
        return Panel(title, *make())
    except (HoldfastError, _Undrawn) as error:
        return Panel(title, notes=[str(error)])


def _finite(title: str, *arrays: np.ndarray) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise _Undrawn(f"Not all {title} are finite numbers, so there is no chart.")


def _read(table: str, columns: Sequence[str], folder: RunFiles) -> np.ndarray:
    """Return columns of a table, [rows, columns]."""
    return np.column_stack([read_column(folder, table, column) for column in columns])


def _maps(key: str, noise: _Pictured, folder: RunFiles) -> list[Panel]:
    """Return the draws on their principal components and by t-SNE, coloured by group."""
    shares = [f"{number(share, 'share')} of the variance" for share in noise.explained]

    def draw(title: str, prefix: str, x: str, y: str) -> tuple[Drawing, str, list[str], Legend]:
        table = _read(noise.table, ["group", f"{prefix}_x", f"{prefix}_y"], folder)
        if not np.isfinite(table).all():
            raise _Undrawn("Too few of the perturbations differ from each other.")
        legend, points = _split_by_group(noise.groups, table[:, 0].astype(int), table[:, 1:])
        linear = prefix == "pca"  # there an axis has a meaning, and no change a place
        across, upwards = noise.origin
        cross = (across, upwards) if linear and finite(across) and finite(upwards) else None
        alt = f"{title}: {plural(len(table), 'draw')} for {plural(noise.images, 'image')}, by {noise.grouped}."
        picture = Dots(f"{key}-{prefix}", points, x=x, y=y, names=[name for _, name in legend], origin=cross)
        return picture, alt + (f" {x}; {y}." if linear else ""), [], legend

    first, second = "Perturbations, principal components", "Perturbations, t-SNE"
    axes = f"first component, {shares[0]}", f"second, {shares[1]}"
    return [
        _panel(first, lambda: draw(first, "pca", *axes)),
        _panel(second, lambda: draw(second, "tsne", "t-SNE: only neighbourhoods have a meaning", "")),
    ]


def _split_by_group(
    names: Sequence[str], groups: np.ndarray, points: np.ndarray
) -> tuple[Legend, list[tuple[int | None, np.ndarray]]]:
    """Return legend and points of the most frequent groups, and of all others as one."""
    shown = _frequent(groups)
    legend: Legend = [(series, names[group]) for series, group in enumerate(shown)]
    parts: list[tuple[int | None, np.ndarray]] = [(s, points[groups == group]) for s, group in enumerate(shown)]
    others = points[~np.isin(groups, shown)]
    return ([*legend, (None, "others")], [(None, others), *parts]) if len(others) else (legend, parts)


def _frequent(groups: np.ndarray) -> list[int]:
    """Return the most frequent groups, in their own order."""
    codes, counts = np.unique(groups, return_counts=True)
    return sorted(codes[np.argsort(-counts, kind="stable")[:GROUPS]].tolist())


def _heat_map(key: str, noise: _Pictured, folder: RunFiles) -> Panel:
    title = f"Perturbations by {noise.grouped}"

    def draw() -> tuple[Drawing, str, list[str], Legend]:
        table = _read(noise.table, ["group", "draw", *(f"pixel_{i:02d}" for i in range(noise.cells))], folder)
        _finite("perturbations", table)
        groups, drawn, pixels = table[:, 0].astype(int), table[:, 1], table[:, 2:]
        order = np.argsort(drawn, kind="stable")  # the first draw of every image comes before the second one of any
        rows = {group: order[groups[order] == group][:ROWS] for group in _frequent(groups)}
        values = pixels[np.concatenate(list(rows.values()))]
        bands = [(noise.groups[group], len(draws)) for group, draws in rows.items()]
        largest = number(float(np.abs(values).max()))
        notes = [f"A row is a draw. Blue is darker, orange brighter; the fullest colour is ±{largest}."]
        picture = Heat(f"{key}-heat", values, bands, x="pixel, row by row, after averaging")
        return picture, f"{title}: one band each of up to {ROWS} draws, within ±{largest}.", notes, []

    return _panel(title, draw)


def _mixture(key: str, noise: _Pictured, folder: RunFiles) -> list[Panel]:
    """Return the mixture's weights, its means, and the covariance of its heaviest component."""
    # Three charts, each of which says by itself why it cannot be drawn
    mean = np.array(noise.weights.mean, dtype=float)  # null becomes NaN

    def weights() -> tuple[Drawing, str, list[str], Legend]:
        """Draw the weights of all images and, where they differ, of the most frequent groups."""
        by_group = noise.weights.groups
        shown = _frequent(_read(noise.table, ["group"], folder)[:, 0].astype(int)) if by_group else []
        rows = np.array([mean, *(by_group[group] for group in shown)], dtype=float)
        _finite("mixture weights", rows)
        names = ["all", *(noise.groups[group] for group in shown)] if by_group else ["all images"]
        shares = ", ".join(number(share, "share") for share in mean.tolist())
        legend: Legend = [(i, f"component {i + 1}") for i in range(len(mean))]
        return Bars(f"{key}-weights", names, rows), f"Mixture weights, mean over the images: {shares}.", [], legend

    def means() -> tuple[Drawing, str, list[str], Legend]:
        size = noise.means.size
        table = _read(noise.means.table, [f"axis_{i:02d}" for i in range(size)], folder)
        _finite("means and weights", table, mean)
        alt = f"Means of the components along {plural(size, 'principal component')} of the latent draws."
        return ComponentBars(f"{key}-means", table, mean), alt, [], []

    def covariance() -> tuple[Drawing, str, list[str], Legend]:
        size, block = noise.covariance.size, noise.covariance.block
        table = _read(noise.covariance.table, [f"latent_{i:02d}" for i in range(size)], folder)
        _finite("covariances", table)
        largest = number(float(np.abs(table).max()))
        averaged = f"Each cell is the mean over {block} × {block} latent numbers. " if block > 1 else ""
        notes = [f"Mean over images. {averaged}Blue is below 0, orange above; the fullest colour is ±{largest}."]
        alt = f"Covariance of the heaviest component, {size} × {size} cells within ±{largest}."
        return Heat(f"{key}-covariance", table, x="latent numbers"), alt, notes, []

    return [
        _panel("Mixture weights", weights),
        _panel("Means of the components", means),
        _panel("Covariance of the heaviest component", covariance),
    ]


def _sample(picture: SampleEntry, groups: Sequence[str], times: str, folder: RunFiles) -> Sample:
    name, group = picture.id, groups[picture.group]
    shots = [shot(folder, picture.clean, "clean", f"{name}: clean image")]
    for i, draw in enumerate(picture.draws, 1):
        shots.append(shot(folder, draw.disturbed, f"draw {i}", f"{name}: draw {i} of the noise"))
        alt = f"{name}: what draw {i} changes, amplified {times}"
        shots.append(shot(folder, draw.difference, f"difference {i}", alt))
    return Sample(name, group, shots)
