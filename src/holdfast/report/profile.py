"""A profile in the terminal: what it asks, in which ball, with how many steps, and how long each answer takes."""

from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.auditing.balls import NORM, USUAL, audit_ball, in_words
from holdfast.auditing.panel import validity_panel
from holdfast.auditing.plan import Plan, merge, total_passes
from holdfast.auditing.profile import Profile, profile
from holdfast.config.overrides import defaults
from holdfast.core import Measure, registry
from holdfast.report.numbers import duration, plural

PACE = 100
"""Encoder passes a second at which times are told: those of an encoder that takes 10 ms for an image."""


def print_profile(name: str, console: Console) -> None:
    """Print a profile's questions, each with the time that it takes, and that of all.

    Args:
        name: see `profile`.
        console: where to print; colours follow it.
    """
    chosen = profile(name)
    plan = _plan(chosen)
    population, split = chosen.images, plan.split(chosen.images)
    console.print(Text.assemble((Path(name).stem, "bold"), f" (profile): {chosen.description}\n"))
    console.print(Text(_ball(chosen)))
    console.print(Text(f"At most {plural(population, 'image')}, of which {split.attacked:,} are attacked.\n"))

    # Each question: what it takes by itself, and what it adds to those above
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("question", overflow="fold", ratio=1)
    for column in ("per image", "in all"):
        table.add_column(column, justify="right")
    readers = [(key, measure.prerequisites()) for key, measure in plan.named_measures.items()]
    before = 0
    for number, (key, measure) in enumerate(plan.named_measures.items(), 1):
        so_far = total_passes(merge(readers[:number]), split).work
        per_image = sum(observation.passes.work for observation in measure.prerequisites())
        table.add_row(
            _question(key, measure), _time(per_image), _time(so_far - before) if so_far > before else "shared"
        )
        before = so_far
    whole = plan.predict(population)
    checks = f"May the answers be believed?\n{plural(len(plan.checks), 'validity check')}"
    table.add_row(checks, "", _time(whole.work - before))
    console.print(table)
    console.print(
        f"In all at most {_time(whole.work)} for an encoder that takes {1000 // PACE} ms an image, forward or "
        "backward. How long yours takes: holdfast audit ENCODER --data IMAGES --dry-run."
    )
    if chosen.budget is not None:
        console.print(Text(f"After {duration(chosen.budget)} no further round begins, unless --budget says so."))


def _plan(chosen: Profile) -> Plan:
    """Return the profile's plan; of which encoder and images, does not matter for its passes."""
    return Plan(
        ("any",),
        "any",
        chosen.measures,
        validity_panel(chosen.measures, chosen.examined, chosen.queries),
        images=chosen.images,
        attacked=chosen.attacked,
        spare=any(measure.learns for measure in chosen.measures),
    )


def _ball(chosen: Profile) -> str:
    """Return the ε of a profile, or what is taken for each kind of images."""
    if chosen.eps is not None:
        return f"{in_words(audit_ball(chosen.norm, chosen.eps, lambda: None), None)}, unless --eps says otherwise."
    kinds = ", ".join(f"{kind.ball(NORM, None).written} for {kind.images}" for kind in USUAL)
    return f"ε by the images, unless --eps says otherwise: in ℓ∞ {kinds}."


def _question(key: str, measure: Measure) -> Text:
    """Return what a measure asks, its name, its attacks, and the parameters that are not the measure's own defaults."""
    spec = registry.spec(measure)
    usual = defaults("measures", spec["name"], spec.get("ball", {}))
    fields = [
        f"{name} = {_brief(value)}"
        for name, value in spec.items()
        if name != "ball" and (value != usual.get(name) or "steps" in str(value) or name == "steps")
    ]
    return Text.assemble(measure.question, (f"\n{key}: {', '.join(fields)}" if fields else f"\n{key}", "dim"))


def _brief(value: Any) -> str:
    """Return a part by its name, with the steps that it takes; several of them in brackets."""
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_brief, value))})"
    if not _named(value):
        return str(value)
    inner = [_brief(parts) for parts in value.values() if isinstance(parts, list) and any(map(_named, parts))]
    steps = f" of {plural(value['steps'], 'step')}" if value.get("steps") else ""
    return " ".join([value["name"], *inner]) + steps


def _named(value: Any) -> bool:
    return isinstance(value, dict) and "name" in value


def _time(passes: float) -> str:
    return duration(passes / PACE)
