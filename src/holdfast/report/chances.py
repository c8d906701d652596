"""The shares of images and draws that hold, from the worst point to a given noise, as data for the report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.report import noise_plots, numbers
from holdfast.report.numbers import finite
from holdfast.report.sections import Chart

FAMILIES = ("adversarial_robustness", "worst_noise_robustness", "probabilistic_robustness")
"""The measures that are compared, in the order of their values: AR <= NPPR <= PR."""
STRUCTURES = ("joint", "input", "label", "independent")
"""What a learned noise knows of an image, from the most (which can do the most harm) to the least."""


@dataclass(frozen=True)
class _Measure:
    """A measure of the record: its key, its family's place in the order, its part, and the ball of its disturbances."""

    key: str
    family: int
    part: Mapping[str, Any]
    ball: Mapping[str, Any]

    @property
    def setting(self) -> dict[str, Any]:
        """What must agree for the order to hold: failure and ball, and which images count."""
        return {name: self.part.get(name) for name in ("failure", "among", "first")} | {"ball": self.ball}

    @property
    def how(self) -> dict[str, Any]:
        """All the other parameters."""
        return {name: value for name, value in self.part.items() if name not in self.setting}

    @property
    def name(self) -> str:
        """The row's name, without the measure."""
        if self.family == 0:
            return f"attack ({_words(self.part['attack'])})"
        if self.family == 1:
            return f"worst noise ({self.structure or _words(self.part['learner'])})"
        return _words(self.part["noise"])

    @property
    def structure(self) -> str:
        return str(self.part.get("learner", {}).get("structure", ""))

    @property
    def place(self) -> tuple[int, int]:
        known = self.structure in STRUCTURES
        return self.family, STRUCTURES.index(self.structure) if known else len(STRUCTURES)


def chance_charts(record: Mapping[str, Any]) -> list[Chart]:
    """Return one chart for all measures with one failure and one ball, where two or more have a value.

    Noises without a ball, such as rotation, are in none: nothing is known of their order.
    """
    groups: dict[str, list[_Measure]] = {}
    for measure in sorted(_measures(record), key=lambda m: m.place):  # stable: else as the record has them
        groups.setdefault(str(_flat(measure.setting)), []).append(measure)
    charts = []
    settings = [same[0].setting for same in groups.values()]
    for title, same in zip(_told_apart(map(_title, settings), settings), groups.values(), strict=True):
        if chart := _chart(f"chances{len(charts)}", title, same, record):
            charts.append(chart)
    return charts


def _measures(record: Mapping[str, Any]) -> Iterable[_Measure]:
    parts = {key: m["part"] for e in record["encoders"] for key, m in e.get("measures", {}).items()}
    for key, part in parts.items():
        ball = part.get("ball") or part.get("noise", {}).get("ball")
        if part["name"] in FAMILIES and ball:
            yield _Measure(key, FAMILIES.index(part["name"]), part, ball)


def _chart(key: str, title: str, same: Sequence[_Measure], record: Mapping[str, Any]) -> Chart | None:
    rows: list[noise_plots.Row] = []
    notes: list[str] = []
    said: dict[int, list[str]] = {}
    for name, measure in zip(_told_apart([m.name for m in same], [m.how for m in same]), same, strict=True):
        points = []
        for series, encoder in enumerate(record["encoders"]):
            if not (m := encoder.get("measures", {}).get(measure.key)):
                continue
            score = m["scores"].get(m.get("headline")) or {}
            if m.get("error") or not finite(score.get("value")):
                why = m.get("error") or score.get("note") or "no value"
                notes.append(f"{encoder['name']}: {name} is left out ({why.rstrip('.')}).")
                continue
            ends = [score[end] if finite(score.get(end)) else score["value"] for end in ("low", "high")]
            points.append((series, score["value"], *ends))
            said.setdefault(series, []).append(f"{name} {numbers.score(score, m['unit'])}")
        if points:
            rows.append(noise_plots.Row(name, measure.family, points))
    if len(rows) < 2:
        return None
    each = "; ".join(f"{record['encoders'][series]['name']}: {', '.join(said[series])}" for series in sorted(said))
    alt = f"What holds, from the worst point to a given noise, {title}. {each}."
    return Chart(title, noise_plots.forest(key, rows), alt, notes)


def _title(setting: Mapping[str, Any]) -> str:
    ball = setting["ball"]
    return f"{_words(setting['failure'], *_texts(setting['failure']))}, {_words(ball)} {ball['radius']:g}"


def _texts(part: Mapping[str, Any]) -> list[str]:
    """Return what a part chooses by name: a divergence, a probe."""
    chosen = [v.get("name") if isinstance(v, Mapping) else v for k, v in part.items() if k not in ("kind", "name")]
    return [value.replace("_", " ") for value in chosen if isinstance(value, str)]


def _words(part: Mapping[str, Any], *more: str) -> str:
    return " ".join([part["name"].replace("_", " "), *more])


def _told_apart(names: Iterable[str], parameters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return names; those that read the same get the first parameters that set them apart."""
    names, flats = list(names), [_flat(each) for each in parameters]
    told = []
    for name, flat in zip(names, flats, strict=True):
        twins = [other for n, other in zip(names, flats, strict=True) if n == name]
        words = []
        for key in dict.fromkeys(key for twin in twins for key in twin):
            alike = [twin for twin in twins if twin.get(key) == flat.get(key)]
            if len(alike) < len(twins) and key in flat:
                words.append(f"{key.rpartition('.')[2].replace('_', ' ')} {flat[key]}")
            twins = alike
        told.append(f"{name}, {', '.join(words)}" if words else name)
    return told


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested parts as dotted parameters: {"attack.steps": "50", ...}; a part's name stands for the part."""
    flat: dict[str, str] = {}
    for key, value in data.items():
        path = prefix.rstrip(".") if key == "name" and prefix else prefix + key
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{path}.")
        elif key != "kind" and value is not None:
            flat[path] = numbers.part(value)
    return flat
