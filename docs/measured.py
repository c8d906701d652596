"""A hook of MkDocs: puts what benchmarks have measured of known encoders into the pages, as tables.

`encoders.json` is of `python -m benchmarks.references`, `hardening.json` of `python -m benchmarks.hardening`,
`certified_training.json` of `python -m benchmarks.certified_training`, `black_box.json` of `python -m
benchmarks.black_box`, `parity.json` of `python -m benchmarks.parity`, `proved_builds.json` of `python -m
benchmarks.proved_builds`, `hubs.json` of `python -m benchmarks.hubs`. A page asks by a block, for example
`<!-- worst case: CIFAR-10 -->`, see `blocks.py`.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.runtime.sizes import in_figures

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))  # MkDocs loads a hook by its path alone

import blocks  # noqa: E402

ASKED = blocks.pattern(
    "worst case",
    "everyday",
    "classifiers",
    "told by",
    "alike",
    "matrix",
    "records",
    "hardening",
    "certified",
    "coarse attacks",
    "parity",
    "attacked builds",
    "proved builds",
    "hubs",
    "black box",
)
OUTCOMES = {
    "Accuracy kept under attack": "accuracy kept under attack",
    "Relative drop": "accuracy kept under corruptions",
    "Robust accuracy": "accuracy under attack",
    "Corrupted accuracy": "accuracy under corruptions",
}
"""What labels tell of a classifier, and how the tables call it, turned so that more is better."""

ENDS = ("value", "low", "high")

RESCALINGS = ("csls", "local scaling", "mutual proximity")
"""Defences against hubs."""

STRONG = 0.9
"""Correlation from which two measures are said to be alike."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace each block by the table that it asks for (MkDocs calls this for every page)."""
    return blocks.replace(ASKED, markdown, make)


def make(kind: str, of: str | None) -> str:
    """Return the table that a block asks for."""
    makers: dict[str, Callable[..., str]] = {
        "worst case": worst_case, "everyday": everyday, "classifiers": classifiers, "told by": told_by, "alike": alike,
        "matrix": matrix, "records": records, "hardening": hardening, "certified": certified,
        "coarse attacks": coarse_attacks, "parity": parity, "attacked builds": attacked_builds,
        "proved builds": proved_builds, "hubs": hubs,
        "black box": black_box,
    }  # fmt: skip
    return makers[kind](*([of] if of else []))


@cache
def measured() -> Mapping[str, Any]:
    """Return what `encoders.json` holds."""
    return json.loads((DOCS / "encoders.json").read_text(encoding="utf-8"))


def worst_case(images: str) -> str:
    """Return a table of what attacks do to the encoders of one kind of images, the most robust first."""
    colour = _colour(images)
    unit = "1/255" if colour else "0.025"
    lines = _head(
        "encoder", f"half break at, ℓ∞{', /255' if colour else ''}", "proved", "ℓ2", f"breakaway risk at 4 × {unit}",
        "nearest-neighbour accuracy at 2", "at 4", "at 8",
    )  # fmt: skip
    return "\n".join(
        lines + [_row(row["name"], _worst_cells(row["scores"], 255 if colour else 1)) for row in _of(images)]
    )


def _worst_cells(scores: Mapping[str, Any], scale: float) -> list[str]:
    radius = scores["Breaking radius (ball linf)"]
    near = [_share(scores[f"Nearest-neighbour accuracy at {size}"]) for size in (2, 4, 8)]
    first = [_size(radius, scale), _size(radius.get("proved"), scale), _size(scores["Breaking radius (ball l2)"], 1)]
    return [*first, _share(scores["Breakaway risk at 4"]), *near]


def everyday(images: str) -> str:
    """Return a table of what noise and corruptions do, and of how the representations lie."""
    titles = ("Probabilistic robustness", "Corruption drift", "Neighbour consistency")
    noise = f"holds under uniform noise of {'8/255' if _colour(images) else '.2'}"
    lines = _head("encoder", noise, "corruption drift", "neighbours kept", "effective rank", "of")
    for row in _of(images):
        rank = _number(row["scores"]["Effective rank"])
        lines.append(_row(row["name"], [*(_share(row["scores"][title]) for title in titles), rank, str(row["dim"])]))
    return "\n".join(lines)


def classifiers(images: str) -> str:
    """Return a table of what becomes of a linear classifier on each encoder."""
    colour = _colour(images)
    attacked = f"attacked by {'2/255' if colour else '.05'}"
    radius = f"half wrong after, ℓ∞{', /255' if colour else ''}"
    lines = _head("encoder", "accuracy", attacked, radius, "under corruptions", "share that corruptions take")
    for row in _of(images):
        scores = row["scores"]
        shares = [_share(scores[title]) for title in ("Probe accuracy", "Robust accuracy")]
        size = _size(scores["Breaking radius of a classifier"], 255 if colour else 1)
        rest = [_share(scores[title]) for title in ("Corrupted accuracy", "Relative drop")]
        lines.append(_row(row["name"], [*shares, size, *rest]))
    return "\n".join(lines)


def told_by(images: str = "all") -> str:
    """Return how each measure without labels goes with each outcome, the best foreteller of attacks first."""
    rows = [row for row in measured()["predictions"] if row["images"] == images]
    foretold: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["second"] in OUTCOMES and row["labels"] == [False, True]:
            foretold.setdefault(row["first"], {})[row["second"]] = row
    first = next(iter(OUTCOMES))
    order = sorted(foretold, key=lambda title: -(foretold[title].get(first, {}).get("value") or -1))
    lines = _head("measure", *OUTCOMES.values())
    return "\n".join(lines + [_row(title, [_correlation(foretold[title].get(o)) for o in OUTCOMES]) for title in order])


def alike(images: str = "all") -> str:
    """Return the pairs of measures without labels that put encoders into nearly one order."""
    rows = [row for row in measured()["predictions"] if row["images"] == images and row["labels"] == [False, False]]
    strong = [row for row in rows if abs(row["value"] or 0) >= STRONG]
    strong.sort(key=lambda row: -abs(row["value"]))
    return "\n".join(_head("", "", "correlation") + [_row(r["first"], [r["second"], _correlation(r)]) for r in strong])


def matrix(images: str = "all") -> str:
    """Return the correlation of every two measures, of those that are asked at several sizes at 4 units."""
    rows = [row for row in measured()["predictions"] if row["images"] == images]
    known = {frozenset((row["first"], row["second"])): row["value"] for row in rows}
    titles = dict.fromkeys(row[end] for row in rows for end in ("first", "second"))
    titles = [title for title in titles if not re.search(r" at [128]$", title)]
    lines = _head("", *(f"{number}" for number, _ in enumerate(titles, 1)))
    for number, title in enumerate(titles, 1):
        values = [known.get(frozenset((title, other))) for other in titles[: number - 1]]
        cells = ["" if value is None else f"{value:.2f}".replace("0.", ".", 1) for value in values]
        cells = [
            f"**{cell}**" if abs(value or 0) >= STRONG else cell for cell, value in zip(cells, values, strict=True)
        ]
        lines.append(_row(f"{number} {title}", [*cells, *[""] * (len(titles) - number + 1)]))
    return "\n".join(lines)


def records() -> str:
    """Return how long each audit took, and the seal of its record."""
    lines = _head("images", "audit", "seconds of one core", "record")
    counts: dict[str, int] = {}
    for row in measured()["records"]:
        kind = ("without labels", "classifiers")[counts.get(row["images"], 0)]
        counts[row["images"]] = counts.get(row["images"], 0) + 1
        lines.append(_row(row["images"], [kind, f"{row['seconds']:,.0f}", f"`{row['seal'][:12]}`"]))
    return "\n".join(lines)


def hardening(network: str) -> str:
    """Return what every way to harden made of a network, in the order of the accuracy under attack."""
    studies = {study["network"]: study for study in json.loads((DOCS / "hardening.json").read_text(encoding="utf-8"))}
    if network not in studies:
        raise ValueError(f"expected one of {', '.join(studies)}, got {network!r}")
    study = studies[network]
    lines = _head(
        "way", "steps", "passes a step", "accuracy", f"attacked by {in_figures(255 * study['eps'])}/255",
        "half break at, /255", "universal quantile", "nearest-neighbour accuracy", "cosine to before",
    )  # fmt: skip
    for row in sorted(study["rows"], key=lambda row: -row["robust_accuracy"]["value"]):
        scores = [_share(row[name]) for name in ("probe_accuracy", "robust_accuracy")]
        scores += [_size(row["breaking_radius"], 255)]
        scores += [_share(row[name]) for name in ("universal_quantile", "nearest_neighbour_accuracy")]
        counts = [f"{row[key]:g}" if key in row else "" for key in ("steps", "passes")]
        lines.append(_row(row["way"], [*counts, *scores, _number(row["cosine"])]))
    return "\n".join(lines)


def coarse_attacks() -> str:
    """Return what came of the same hardening under coarse and fine attacks: after 200 steps, best, and at the end."""
    lines = _head(
        "network", "attack of the training", "seed", "half break at, /255: step 200", "best", "end", "accuracy",
        "attacked by 8/255", "cosine to before",
    )  # fmt: skip
    for training in json.loads((DOCS / "coarse_attacks.json").read_text(encoding="utf-8")):
        looks, end = training["looks"], training.get("end", {})
        early = next(look for look in looks if look["step"] == 200)
        best = max(looks, key=lambda look: look["radius"])
        cells = [training["setting"], str(training["seed"])]
        cells += [_size({"value": look["radius"], **look}, 1) for look in (early, best, looks[-1])]
        cells += [_share(end[name]) if end else "" for name in ("probe_accuracy", "robust_accuracy")]
        lines.append(_row(training["network"], [*cells, f"{looks[-1]['cosine']:.3f}"]))
    return "\n".join(lines)


def parity() -> str:
    """Return what builds of real networks keep of the float network, and what was found to make them differ."""
    lines = _head("network", "build", "neighbours kept, of 10", "cosine, median", "disturbed", "below .99", "seconds")
    for row in json.loads((DOCS / "parity.json").read_text(encoding="utf-8")):
        scores = row["scores"]
        cells = [row["build"], _share(scores["overlap@10"])]
        cells += [_cosine(scores[name]) for name in ("cosine", "cosine_disturbed")]
        lines.append(_row(row["network"], [*cells, _share(scores["cosine_below"]), str(row["seconds"])]))
    return "\n".join(lines)


def proved_builds() -> str:
    """Return what is proved of builds of real networks, beside what attacks find."""
    heads = (
        "both agree up to, /255, proved",
        "both disagree at, found",
        "cosine",
        "within 1/255, found",
        "within 1/255, proved",
    )
    lines = _head("network", "int8", *heads, "tighter", "seconds an image")
    for row in json.loads((DOCS / "proved_builds.json").read_text(encoding="utf-8")):
        scores = row["scores"]
        sizes = scores["agreement_radius"]["both"], scores["disagreement_radius"]["median"]
        # A median between a proof and none is none
        proved = scores["cosine_proved"]["nothing proved"]["value"] < 0.5
        cosines = [scores[name]["mean"] for name in ("cosine", "cosine_attacked", *["cosine_proved"] * proved)]
        cells = [row["build"].removeprefix("int8 "), *(_size(size, 255) for size in sizes)]
        cells += [*map(_cosine, cosines), *["none"] * (not proved)]
        lines.append(_row(row["network"], [*cells, f"{row['tighter']:.2g}", f"{row['seconds']:.0f}"]))
    return "\n".join(lines)


def hubs() -> str:
    """Return which share of searches hubs of real networks take, against defences too, and what is proved."""
    lines = _head(
        "network", "images", "ε, /255", "as they are", "by mean similarity", "by the smooth count", *RESCALINGS,
        "proved ≤, 1/255", "half safe to, /255", "seconds a hub",
    )  # fmt: skip
    for row in json.loads((DOCS / "hubs.json").read_text(encoding="utf-8")):
        cells = [f"{row['images']:,}", f"{255 * row['epsilon']:.0f}"]
        cells += [_percent(row[name]) for name in ("as they are", "mean similarity", "smooth count")]
        # The better of hubs that know of the defence and of those that do not
        cells += [_percent(max(row[name], row[f"{name}, known"])) for name in RESCALINGS]
        cells += [_percent(row["proved"]), in_figures(255 * row["half"])] if "proved" in row else ["–", "–"]
        lines.append(_row(row["network"], [*cells, f"{row['seconds']:.1f}"]))
    return "\n".join(lines)


def _percent(share: float) -> str:
    """Return a share in two figures, as tables of hubs have them."""
    return f"{100 * share:.2g} %"


def attacked_builds() -> str:
    """Return what small changes make of builds of real networks and their float networks."""
    lines = _head(
        "network", "build", "both disagree at, /255", "float alone", "build alone", "whole grey levels", "noise",
        "cosine", "parted", "gradients of", "seconds",
    )  # fmt: skip
    led = {"old": "float", "new": "build"}  # else both, or neither
    for row in json.loads((DOCS / "parity.json").read_text(encoding="utf-8")):
        if found := row.get("attacked"):
            radius, alone, cosine = found["scores"].values()
            cells = [_size(score, 255) for score in (radius["median"], alone["old"], alone["new"])]
            cells += [_share(radius["whole grey levels"]), _share(radius["noise of that size"])]
            cells += [_cosine(cosine[name]) for name in ("as they are", "mean")]
            cells += [led.get(found["gradients"], found["gradients"]), str(found["seconds"])]
            lines.append(_row(row["network"], [row["build"], *cells]))
    return "\n".join(lines)


def _cosine(score: Mapping[str, Any]) -> str:
    """Return a cosine with its interval; in as many figures as tell it from 1."""
    value, low, high = (score[end] for end in ENDS)
    places = next((places for places in range(2, 7) if round(1 - value, places) > 0), 6)
    return f"{value:.{places}f} [{low:.{places}f}, {high:.{places}f}]"


def black_box(norm: str) -> str:
    """Return what queries find of each encoder, as a multiple of what gradients find: ours, and those of others."""
    found = [one for one in json.loads((DOCS / "black_box.json").read_text(encoding="utf-8")) if one["norm"] == norm]
    if not found:
        raise ValueError(f"expected linf or l2, got {norm!r}")
    # Ours first, then the others in the order in which they were tried
    names = list(dict.fromkeys(name for one in found for name in one["medians"]))
    size = "half break at, /255" if norm == "linf" else "half break at, ℓ2"
    lines = _head("encoder", "images", size, *names)
    for one in found:
        radius, broken = one["gradients"], one["medians"]
        ratios = [_times(broken[name], radius) if name in broken else "" for name in names]
        shown = f"{255 * radius:.3g}" if norm == "linf" else f"{radius:.3g}"
        lines.append(_row(one["encoder"], [str(one["images"]), shown, *ratios]))
    return "\n".join(lines)


def _times(radius: float | None, least: float) -> str:
    return "none found" if radius is None else f"{radius / least:.2f}"


def certified(network: str) -> str:
    """Return what certified training made of a network, beside what attacks made of it."""
    path = DOCS / "certified_training.json"
    studies = {study["network"]: study for study in json.loads(path.read_text(encoding="utf-8"))}
    if network not in studies:
        raise ValueError(f"expected one of {', '.join(studies)}, got {network!r}")
    lines = _head("way", "half proved up to, /255", "half break at, /255", "cosine to before", "kNN accuracy")
    for row in studies[network]["rows"]:
        sizes = [_size(row[name], 255) for name in ("proved", "broken")]
        lines.append(_row(row["way"], [*sizes, _number(row["cosine"]), _share(row["accuracy"])]))
    return "\n".join(lines)


def _of(images: str) -> list[Mapping[str, Any]]:
    rows = [row for row in measured()["encoders"] if row["images"] == images]
    if not rows:
        kinds = sorted({row["images"] for row in measured()["encoders"]})
        raise ValueError(f"expected images of {', '.join(kinds)}, got {images!r}")
    return sorted(rows, key=lambda row: -(row["scores"]["Breaking radius (ball linf)"]["value"] or 0))


def _colour(images: str) -> bool:
    return _of(images)[0]["input"][0] == 3


def _head(*names: str) -> list[str]:
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def _row(name: str, cells: Iterable[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _size(score: Mapping[str, Any] | None, scale: float) -> str:
    if score is None or score["value"] is None:
        return "none"
    return _mark(score) + _between(*(None if score[end] is None else in_figures(scale * score[end]) for end in ENDS))


def _share(score: Mapping[str, Any]) -> str:
    if score["value"] is None:
        return "undefined"
    low, high = ("–" if score[end] is None else f"{100 * score[end]:.3g}" for end in ("low", "high"))
    return f"{_mark(score)}{100 * score['value']:.3g} % \\[{low},\u00a0{high}\\]"


def _mark(score: Mapping[str, Any]) -> str:
    """Return what stands before a number whose check failed."""
    standing = score.get("standing", "sound")  # what is proved, and what no check was asked of, has none
    return {"sound": "", "at least": "≥ ", "at most": "≤ "}.get(standing, f"({standing}) ")


def _number(score: Mapping[str, Any]) -> str:
    return _mark(score) + _between(*(None if score[end] is None else f"{score[end]:.3g}" for end in ENDS))


def _correlation(row: Mapping[str, Any] | None) -> str:
    if row is None or row["value"] is None:
        return ""
    text = _between(*(None if row[end] is None else f"{row[end]:.2f}" for end in ENDS))
    return f"**{text}**" if (row["low"] or 0) > 0 else text


def _between(value: str | None, low: str | None, high: str | None) -> str:
    return f"{value}" if low is None or high is None else f"{value} \\[{low},\u00a0{high}\\]"
