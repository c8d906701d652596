"""What hardening changed: every measure before and after, paired, and how far clean representations have moved."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Encoder, Reps, Score
from holdfast.numerics import statistics
from holdfast.sources.data import ImageSet


def drift(before: Encoder, after: Encoder, images: ImageSet, device: str = "cpu") -> dict[str, Score]:
    """Return how far clean representations have moved: cos(f(x), g(x)) and ‖g(x) - f(x)‖ / ‖f(x)‖, means over images.

    Heads that were learned on f fit g as far as these are near 1 and 0.
    """
    cosines, moves = [], []
    f, g = before.to(device), after.to(device)
    with torch.no_grad():
        for x in images.batches(64):
            old, new = f(x.to(device)).double().cpu(), g(x.to(device)).double().cpu()
            cosines.append(F.cosine_similarity(old, new))
            moves.append(_relative(old, new))
    return {
        "cosine": statistics.mean(torch.cat(cosines), most=1.0),
        "relative_l2": statistics.mean(torch.cat(moves)),
    }


def _relative(old: Reps, new: Reps) -> Float[Tensor, "batch"]:
    """Return ‖new - old‖ / ‖old‖ row by row; NaN, undefined, where old is 0."""
    size = old.norm(dim=1)
    return torch.where(size > 0, (new - old).norm(dim=1) / size, torch.nan)


def changes(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what an audit of two encoders says of every measure: before, after, and after - before, paired.

    `verdict` is "better" or "worse" where the interval of the difference excludes 0, else "open".
    """
    rows = []
    before, after = (encoder.get("measures", {}) for encoder in record["encoders"])
    for key in dict.fromkeys([*before, *after]):
        measure = before.get(key) or after[key]
        row = {"measure": key, **{name: measure[name] for name in ("title", "unit", "better", "needs_labels")}}
        row |= {"before": _headline(before.get(key)), "after": _headline(after.get(key)), "difference": None}
        pairs = record["comparison"].get(key, {}).get("pairs", [])
        if pairs:
            gap = pairs[0]["difference"]  # before - after
            turned = {"value": "value", "low": "high", "high": "low"}
            row["difference"] = gap | {k: None if gap[v] is None else -gap[v] for k, v in turned.items()}
        rows.append(row | {"verdict": _verdict(row)})
    return rows


def _headline(measure: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return measure["scores"].get(measure["headline"]) if measure else None


def _verdict(row: Mapping[str, Any]) -> str:
    gap = row["difference"] or {}
    if gap.get("low") is None or gap.get("high") is None or gap["low"] <= 0 <= gap["high"]:
        return "open"
    return "better" if (gap["low"] > 0) == (row["better"] == "higher") else "worse"
