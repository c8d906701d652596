"""A run folder made by hand, a record with its tables and pictures, for the tests of the report.

The numbers are invented but consistent: scores are computed from the tables, pairs from the same images, and the
digits of the pictures are real. `make_run(folder)` writes three encoders with what can go wrong: a measure that
failed, a score that is undefined, a check that warns, one that fails, a file left out.
"""

import functools
import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits

from holdfast.core import Score
from holdfast.report.charts.dots import Dots
from holdfast.report.charts.figure import Drawing
from holdfast.storage.record import SCHEMA
from holdfast.storage.seal import SEAL, add_seal

SOUND = {"checks": [], "because": [], "standing": "sound", "if_weak": "at most"}
"""What a score says of its checks where none failed."""

NAMES = ("zoo:digits-supervised", "zoo:digits-simclr", "zoo:digits-simclr-hardened")
SHORT = tuple(name.removeprefix("zoo:") for name in NAMES)
"""What people are shown of these."""
NO_TARGETS = "all targets coincide with their image; give data with distinct images"
STEPS = (5, 10, 25, 50)
ATTACKED = 200
# key: title, better, unit, column, scale of the weakest encoder, scale of the strongest
MEASURES: dict[str, tuple[str, str, str, str | None, float, float]] = {
    "universal_quantile": ("Universal quantile", "lower", "share", "quantile", 0.80, 0.12),
    "relative_quantile": ("Relative quantile", "higher", "ratio", "ratio", 0.35, 0.85),
    "cosine_similarity": ("Cosine similarity", "higher", "similarity", "cosine", 0.30, 0.96),
    "breakaway_risk": ("Breakaway risk", "lower", "share", "share_closer", 0.21, 0.0012),
    "nearest_neighbour_accuracy": ("Nearest-neighbour accuracy", "higher", "share", "kept", 0.22, 0.98),
    "overlap_risk": ("Overlap risk", "lower", "share", "overlaps", 0.55, 0.04),
    "adversarial_margin": ("Adversarial margin", "higher", "ratio", "margin", -0.12, 0.62),
}
ATTACK = {"kind": "attacks", "name": "pgd", "steps": 50, "step": 0.01, "restarts": 1}
BALL = {"kind": "threats", "name": "linf", "radius": 0.1}
ATTACKING = {"attack": ATTACK, "ball": BALL, "objective": {"kind": "objectives", "name": "l2"}}


EMPTY = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>'
CHARTS: dict[bytes, str] = {}
"""Charts that were drawn, by their numbers."""
DRAWING = [True]
"""Whether charts are drawn; False last: they are left empty."""


def draw_charts_once(patch: pytest.MonkeyPatch) -> None:
    """Let charts of the same numbers be drawn once in all tests: they are 0.9 of the time that a report takes."""
    for kind in (Drawing, Dots):
        patch.setattr(kind, "svg", _remembered(kind.svg))


@contextmanager
def no_charts() -> Iterator[None]:
    """Leave charts empty, where nobody looks at them."""
    DRAWING.append(False)
    try:
        yield
    finally:
        DRAWING.pop()


def _remembered(draw: Callable[[Any], str]) -> Callable[[Any], str]:
    @functools.wraps(draw)
    def remembered(drawing: Drawing) -> str:
        if not DRAWING[-1]:
            return EMPTY
        numbers = pickle.dumps(drawing)
        if numbers not in CHARTS:
            CHARTS[numbers] = draw(drawing)
        return CHARTS[numbers]

    return remembered


@functools.cache
def _digits() -> np.ndarray:
    return load_digits().images / 16


def make_run(folder: Path, encoders: int = 3, seed: int = 0) -> dict[str, Any]:
    """Write a run of so many encoders into `folder` and return its record."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [NAMES[i] if i < len(NAMES) else f"timm:vit_tiny_patch16_224/run-{i}" for i in range(encoders)]
    tables: dict[tuple[int, str], np.ndarray] = {}
    entries = [
        _encoder(folder, name, i, encoders, tables, np.random.default_rng((seed, i))) for i, name in enumerate(names)
    ]
    if encoders >= 3:
        _go_wrong(entries)
    record = {
        "schema": SCHEMA,
        "holdfast": {"version": "0.1.0", "git": "2e7f5b8"},
        "plan": {
            "profile": "quick", "seed": seed, "images": 600, "attacked": ATTACKED, "batch_size": 64, "device": "cpu",
            "data": "digits", "encoders": names,
            "measures": [{"kind": "measures", "name": key, **ATTACKING} for key in MEASURES],
            "checks": [], "command": f"holdfast audit {' '.join(names)} --data digits --profile quick --seed {seed}",
        },
        "data": {
            "spec": "digits", "description": "scikit-learn's handwritten digits, 8 x 8, those not trained on",
            "available": 600, "images": 600, "attacked": ATTACKED, "fingerprint": "5f0c2ab91d7e4410",
            "skipped": [["scans/bad.jpg", "not an image: cannot identify image file"]] if encoders >= 3 else [],
            "balls": ["every pixel may change by up to 25.5/255 (ε in ℓ∞)"], "table": "tables/images.parquet",
        },
        "encoders": entries,
        "comparison": _comparison(entries, tables),
        "environment": {
            "python": "3.11.7", "torch": "2.13.0", "platform": "Linux-6.1-x86_64",
            "packages": {"numpy": "2.4.6", "scikit-learn": "1.9.1", "timm": "1.0.31"},
        },
        "failures": [f"{NAMES[0]}: adversarial_margin: {NO_TARGETS}"] if encoders >= 3 else [],
        "run": {
            "started": "2026-03-02T10:11:12+00:00", "finished": "2026-03-02T10:12:04+00:00", "seconds": 52.3,
            "resumed_shards": 2,
        },
    }  # fmt: skip
    write_record(folder, record)
    return record


def in_words(record: dict[str, Any], key: str, text: str = "Half of the images hold.") -> None:
    """Let a measure of a record answer in words."""
    for encoder in record["encoders"]:
        words = {"says": text.rstrip("."), "further": []}
        encoder["measures"][key]["in_words"] = words


def in_brief(record: dict[str, Any], *keys: str) -> None:
    """Let measures of a record be among those that a report begins with, and have a family."""
    for encoder in record["encoders"]:
        for key, measure in encoder["measures"].items():
            measure |= {"in_brief": key in keys, "family": "In brief" if key in keys else ""}


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write a (changed) record, sealed anew where it was."""
    record = add_seal(record) if SEAL in record else record
    (folder / "record.json").write_text(json.dumps(record, allow_nan=False), encoding="utf-8")


def _encoder(
    folder: Path, name: str, index: int, total: int, tables: dict[tuple[int, str], np.ndarray], rng: np.random.Generator
) -> dict[str, Any]:
    slug = name.replace(":", "-").replace("/", "-")
    strength = 0.5 if total == 1 else index / (total - 1)
    forward, backward = 600 + 2 * 51 * ATTACKED, 2 * 50 * ATTACKED
    alone = {"forward": 7 * 600 + 7 * 51 * ATTACKED, "backward": 7 * 50 * ATTACKED}
    measures = {key: _measure(folder, slug, key, index, strength, tables, rng) for key in MEASURES}
    passes, spent = {"forward": forward // 2, "backward": backward // 2}, {"forward": forward, "backward": backward}
    return {
        "name": name, "slug": slug, "fingerprint": f"{0x9A3C51D200E4B7 + index:016x}", "parameters": 36_928, "dim": 64,
        "input": [1, 8, 8], "mean": [0.0], "std": [1.0],
        "origin": {"source": "zoo", "layer": "backbone", "pooling": "none", "normalisation": "none"},
        "geometry": {
            "size": [8, 8], "channels": 1, "resize": None, "interpolation": "bilinear", "source": "zoo",
            "longest": None, "rounding": "even", "resampler": "pillow",
        },
        "error": None, "measures": measures, "checks": _checks(),
        "observations": [
            {
                "part": {"kind": "observations", "name": "attacked", **ATTACKING},
                "title": f"{kind} l2, Pgd(50 steps), linf 0.1", "passes": dict(passes), "predicted": dict(passes),
                "serves": list(MEASURES)[:4], "seconds": 1.2, "charts": [_curve(kind, strength)],
            }
            for kind in ("untargeted", "targeted")
        ],
        "passes": {
            **spent, "alone": alone, "predicted": dict(spent), "measures": dict(spent),
            "shared_fraction": 1 - (forward + backward) / (alone["forward"] + alone["backward"]),
        },
        "gallery": _gallery(folder, slug, strength, rng),
    }  # fmt: skip


def _measure(
    folder: Path, slug: str, key: str, index: int, strength: float, tables: dict, rng: np.random.Generator
) -> dict[str, Any]:
    title, better, unit, column, weak, strong = MEASURES[key]
    centre = weak + (strong - weak) * strength**0.5
    scores = {}
    final = np.zeros(ATTACKED)
    luck = rng.random(ATTACKED)
    for steps in STEPS:
        progress = 1 - np.exp(-steps / 9)
        start = {"lower": 0.0, "higher": 1.0}[better]
        now = start + (centre - start) * progress
        if key in ("overlap_risk", "nearest_neighbour_accuracy"):
            final = (luck < now).astype(float)
        else:
            spread = 0.35 * min(abs(now), abs(1 - now)) + 1e-4
            final = now + spread * (np.sqrt(12) * (luck - 0.5))
        scores[f"{steps} steps"] = _score(final)
    tables[index, key] = final
    path = f"tables/{slug}/{key}.parquet"
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    columns = {"id": [f"digit-{i:04d}" for i in range(ATTACKED)], column or "value": final}
    pq.write_table(pa.table(columns), folder / path)
    return {
        "part": {"kind": "measures", "name": key, **ATTACKING},
        "title": title, "question": f"How large is the {title.lower()} under attack?",
        "how_to_read": f"A {better} {title.lower()} means that images keep their place.",
        "better": better, "unit": unit, "reference": "Unsupervised robustness (2022), section 5", "scores": scores,
        "headline": "50 steps", "column": column, "charts": charts_of(column),
        "passes_alone": {"forward": 600 + 51 * ATTACKED, "backward": 50 * ATTACKED},
        "seconds": 0.1, "error": None, "table": path,
    }  # fmt: skip


def chart(kind: str, heading: str, **more: Any) -> dict[str, Any]:
    """Return a chart as a record has it."""
    words = {"heading": heading, "how_to_read": f"How to read {heading}.", "title": "", "score": "", "note": ""}
    return {"kind": kind, **words, **more}


def charts_of(column: str | None) -> list[dict[str, Any]]:
    """Return the charts of a measure that is read out along an attack."""
    names = [f"{steps} steps" for steps in STEPS]
    along = {"scores": names, "at": list(STEPS), "across": "attack steps", "choice": ""}
    charts = [chart("readouts", "Scores against attack steps", **along)]
    return charts + ([chart("distribution", "Per image", column=column)] if column else [])


def _score(values: np.ndarray) -> dict[str, Any]:
    value, half = float(values.mean()), 1.96 * float(values.std()) / len(values) ** 0.5
    return {
        "value": value, "low": value - half, "high": min(value + half, max(1.0, value)), "n": len(values),
        "interval": "bootstrap over images",
        "confidence": 0.95, "note": "", **SOUND,
    }  # fmt: skip


def _checks() -> dict[str, Any]:
    passed = {
        "input_range": ("Input range", "pixels lie in [0, 1]", {"minimum": 0.0, "maximum": 1.0}),
        "eval_mode": ("Eval mode", "no buffer changed during the audit", {}),
        "preprocessing": ("Preprocessing", "taken from the zoo's own config", {}),
        "gradient_health": ("Gradient health", "every random projection has a gradient", {"share_zero": 0.0}),
        "steps_enough": ("Steps enough", "the last tenth of the steps adds 0.4 %", {"rise": 0.004}),
        "masking": ("Masking", "the gradient-free attack is weaker on 200 of 200 images", {"share": 0.0}),
        "large_radius": ("Large radius", "ε = 1 breaks all images", {"kept": 0.0}),
        "batch_drift": ("Batch drift", "batches of 1 and 64 agree to 3e-7", {"drift": 3e-7}),
    }
    return {
        key: {
            "title": title,
            "status": "pass",
            "finding": finding,
            "meaning": "Nothing here misleads.",
            "consequence": "caution",
            "details": details,
        }
        for key, (title, finding, details) in passed.items()
    }


def _curve(kind: str, strength: float) -> dict[str, Any]:
    steps = np.arange(51)
    median = (2.2 - 1.6 * strength) * (1 - np.exp(-steps / 9))
    bands = {name: [float(v) for v in median * f] for name, f in (("low", 0.6), ("y", 1.0), ("high", 1.35))}
    line = {"x": steps.tolist(), **bands, "name": "", "style": "solid"}
    return chart(
        "curves", "What the attacks maximised", title=f"{kind} l2, Pgd(50 steps), linf 0.1", lines=[line],
        across="attack steps", label="objective", unit="ratio", most=None, dotted=None, summary="objective",
        scale="linear", marks=[], named=[],
    )  # fmt: skip


def _gallery(folder: Path, slug: str, strength: float, rng: np.random.Generator) -> list[dict[str, Any]]:
    digits = _digits()
    entries = []
    for rank in range(4):
        index = int(rng.integers(len(digits)))
        clean = digits[index]
        delta = 0.1 * np.sign(rng.standard_normal(clean.shape))
        attacked = np.clip(clean + delta, 0, 1)
        paths = {
            kind: _picture(folder, f"pictures/{slug}/{rank}-{kind}.png", pixels)
            for kind, pixels in {
                "clean": clean,
                "attacked": attacked,
                "difference": 0.5 + 5 * (attacked - clean),
            }.items()
        }
        sides = {
            side: [
                {
                    "id": f"digit-{i:04d}",
                    "picture": _picture(folder, f"pictures/{slug}/{rank}-{side}-{k}.png", digits[i]),
                }
                for k, i in enumerate(int(j) for j in rng.integers(len(digits), size=3))
            ]
            for side in ("before", "after")
        }
        drift = 2.4 - 1.5 * strength - 0.1 * rank
        entries.append(
            {"id": f"digit-{index:04d}", "quantile": 0.97 - 0.5 * strength, "drift": drift, **paths, **sides}
        )
    return entries


def _picture(folder: Path, relative: str, pixels: np.ndarray) -> str:
    path = folder / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray((255 * np.clip(pixels, 0, 1)).round().astype(np.uint8)).save(path)
    return relative


def _comparison(entries: list[dict[str, Any]], tables: dict[tuple[int, str], np.ndarray]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, (_, better, *_) in MEASURES.items():
        asked = [i for i, e in enumerate(entries) if _defined(e["measures"][key])]
        pairs, beaten = [], dict.fromkeys(asked, 0)
        for n, i in enumerate(asked):
            for j in asked[n + 1 :]:
                difference = _score(tables[i, key] - tables[j, key])
                pair = {"first": entries[i]["name"], "second": entries[j]["name"], "difference": difference}
                if difference["low"] > 0 or difference["high"] < 0:
                    winner = i if (difference["low"] > 0) == (better == "higher") else j
                    beaten[winner] += 1
                    pair["winner"] = entries[winner]["name"]
                pairs.append(pair)
        best = [entries[i]["name"] for i in asked if asked[1:] and beaten[i] == len(asked) - 1]
        found[key] = {"best": best[0] if best else None, "pairs": pairs}
    return found


def _defined(measure: dict[str, Any]) -> bool:
    return not measure["error"] and measure["scores"]["50 steps"]["value"] is not None


def _go_wrong(entries: list[dict[str, Any]]) -> None:
    first, second = entries[0], entries[1]
    first["measures"]["adversarial_margin"].update(error=NO_TARGETS, scores={}, table=None)
    second["measures"]["relative_quantile"]["scores"]["50 steps"].update(
        value=None, low=None, high=None, note="undefined: 3 pairs had a distance of zero before the attack"
    )
    first["checks"]["masking"].update(
        status="fail", finding="the gradient-free attack is stronger on 61 of 200 images",
        meaning="Gradients are masked: attacks by gradient understate the harm.", details={"share": 0.305},
    )  # fmt: skip
    second["checks"]["steps_enough"].update(status="warn", finding="the last tenth of the steps still adds 6 %")
    second["checks"]["large_radius"].update(status="skip", finding="not run in the quick profile")


def make_score(value: float | None, low: float | None = None, high: float | None = None, **more: Any) -> Score:
    """Return a score, of which `more` says what matters."""
    return Score(**({"value": value, "low": low, "high": high, "n": 100, "interval": "", "if_weak": "at most"} | more))


def harden(record: dict[str, Any], *warnings: str) -> None:
    """Let a record be that of a hardening that warns."""
    moved = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 8, "interval": "", "confidence": 0.95, "note": ""}
    record["hardening"] = {
        "price": {"relative_l2": moved, "cosine": moved}, "measures": [], "steps": 3, "kept": 3, "looks": [],
        "comparisons": [], "seconds": 2.0, "budget": None, "warnings": list(warnings),
    }  # fmt: skip
