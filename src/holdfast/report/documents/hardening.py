"""What hardening did: every measure before and after, the price, and where the encoder is."""

import shlex

from rich.text import Text

from holdfast.numerics.statistics.score import Score
from holdfast.report.document import Block, Document, ToCopy, list_items
from holdfast.report.numbers import BETTER, duration, number, plural, score
from holdfast.report.table import Table
from holdfast.storage.hardening import Change, Hardening, HardeningRecord

_VERDICT = {"better": "green", "worse": "bold red", "open": "yellow"}


def document(hardening: HardeningRecord) -> Document:
    """Return every measure before and after, the price, what to know, and how the encoder is used."""
    rows = [
        [
            Text.assemble((row.title, "bold"), f" {BETTER[row.better][0]}"),
            *(_cell(entry, row.unit) for entry in (row.before, row.after, row.difference)),
            Text(row.verdict, style=_VERDICT[row.verdict]),
        ]
        for row in hardening.measures
    ]
    shown: list[Block] = [Table(("measure", "before", "after", "after - before", ""), rows)]
    shown.append(
        Text(f"better, worse: the paired interval excludes 0. {_summarise_improvements(hardening)}", style="dim")
    )
    shown.append(Text.assemble(("Price: ", "bold"), price(hardening.summary)))
    if not any(row.needs_labels for row in hardening.measures):
        shown.append(Text("no labels, so no accuracy: give labelled images, --train and --test", style="dim"))
    shown.append(Text(_scope(hardening), style="dim"))
    shown += list_items([f"Warning: {line}" for line in hardening.warnings], "bold yellow")
    shown += list_items(hardening.failures, "bold red")

    # How the encoder is used, where it could be measured
    spec = bool(hardening.command)  # a network of somebody's memory has none
    lines = {"Encoder" if spec else "Weights": hardening.encoder}
    if has_measurements(hardening) and spec:
        lines["Use it"] = f"holdfast audit {shlex.quote(hardening.encoder)} --data FOLDER"
    elif not has_measurements(hardening):
        shown.append(Text("What came out could not be measured: do not use it before you know why.", "bold red"))
    lines |= {"File": hardening.file} if hardening.file else {}
    lines |= {"Again": hardening.command} if spec else {}
    return [*shown, ToCopy({**lines, "Report": hardening.report})]


def has_measurements(hardening: HardeningRecord) -> bool:
    """Return whether anything could be measured of the hardened encoder."""
    return any(row.after is not None for row in hardening.measures)


def price(hardening: Hardening) -> str:
    """Return what the hardening cost: how far clean representations moved, accuracies, steps and time."""
    moved, cosine = (score(entry, "ratio") for entry in (hardening.price.relative_l2, hardening.price.cosine))
    parts = [f"clean representations moved by {moved} of their length, cosine {cosine}"]
    changes = [(row.title.lower(), _change(row)) for row in hardening.measures if row.needs_labels]
    parts += [f"{title} {change}" for title, change in changes if change]
    return f"{'; '.join(parts)}; {plural(hardening.steps, 'step')} in {_time(hardening)}.{_choice(hardening)}"


def _choice(hardening: Hardening) -> str:
    """Return why the weights are not those of the last step; "" where they are."""
    looks = {seen.step: seen for seen in hardening.looks}
    if hardening.kept == hardening.steps:
        return ""
    kept, last = (
        score(Score(seen.radius, seen.low, seen.high, n=0, interval=""), "pixels")
        for seen in (looks[hardening.kept], hardening.looks[-1])
    )
    return (
        f" The weights are those of step {hardening.kept}, where half of the images held out to choose them broke at "
        f"{kept}; at the last step they broke at {last}."
    )


def _change(row: Change) -> str:
    """Return what became of a measure; "" where it was not measured both times."""
    if row.before is None or row.after is None:
        return ""
    before, after = (number(end.value, row.unit) for end in (row.before, row.after))
    gap = f" ({score(row.difference, row.unit)})" if row.difference else ""
    return f"{before} before, {after} after{gap}"


def _time(hardening: Hardening) -> str:
    """Return how long the training took, beside its budget, and by how much that was missed."""
    seconds, budget = hardening.seconds, hardening.budget
    if budget is None:
        return duration(seconds)
    missed = seconds - budget
    by = f", {duration(abs(missed))} {'over' if missed > 0 else 'under'}" if abs(missed) > 0.02 * budget else ""
    return f"{duration(seconds)} of a budget of {duration(budget)}{by}"


def _cell(entry: Score | None, unit: str) -> Text:
    if entry is None:
        return Text("-", style="dim")
    return Text(score(entry, unit) if entry.value is not None else number(None))


def _summarise_improvements(hardening: HardeningRecord) -> str:
    free = [row for row in hardening.measures if not row.needs_labels]
    better = sum(row.verdict == "better" for row in free)
    return f"{better} of {plural(len(free), 'measure')} without labels became better."


def _scope(hardening: HardeningRecord) -> str:
    images = hardening.images
    learned = f"{plural(images.learned, 'image')} of {images.data}"
    others = f"audited on {images.held_out} others of {images.test}, {duration(hardening.audit_seconds)} on top"
    share = f"{hardening.weights}; " if hardening.weights else ""
    return f"{hardening.objective} on {learned}, rate {hardening.rate:g}; {share}{others}"
