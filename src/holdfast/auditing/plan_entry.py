"""A plan as JSON data, in the record and in the run folder, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from holdfast.auditing.plan import Plan
from holdfast.auditing.series import Series
from holdfast.core import registry

SIMPLE = (
    "images", "attacked", "data", "seed", "batch_size", "device", "skip_corrupt", "skip_duplicates", "profile", "train",
    "train_images", "precision", "compiled", "shared_searches",
)  # fmt: skip
"""Fields of a plan that stand in its entry as they are."""


def plan_entry(plan: Plan, images: int, attacked: int) -> dict[str, Any]:
    """Return the plan as JSON data, with the numbers of images as they turned out."""
    return {name: getattr(plan, name) for name in SIMPLE} | {
        "images": images,
        "attacked": attacked,
        "encoders": list(plan.encoders),
        "measures": [registry.spec(measure) for measure in plan.measures],
        "checks": [registry.spec(check) for check in plan.checks],
        "series": [asdict(series) for series in plan.series],
        "allow": list(plan.allow),
    }


def plan_of(entry: Mapping[str, Any]) -> Plan:
    """Return the plan that a record, or a run folder, tells of; see `plan_entry`."""
    return Plan(
        encoders=tuple(entry["encoders"]),
        measures=registry.build(entry["measures"]),
        checks=registry.build(entry["checks"]),
        series=tuple(Series(series["name"], tuple(series["encoders"])) for series in entry["series"]),
        allow=tuple(entry["allow"]),
        **{name: entry[name] for name in SIMPLE},
    )
