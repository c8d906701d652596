"""What an audit will take: a sentence for each encoder, what costs most in it, and the sum."""

from collections.abc import Sequence

from rich.text import Text

from holdfast.report.document import Block, Document
from holdfast.report.numbers import count, duration, listing, plural
from holdfast.report.table import Table
from holdfast.storage.estimate import Budget, EncoderEstimate, Estimate, MoreImages, PartEstimate, Seconds

SHOWN = 0.005
"""Share of an encoder's time below which parts are put together."""


def document(estimate: Estimate) -> Document:
    """Return expected time and memory of every encoder, and of all of them; passes are in its JSON."""
    shown: list[Block] = []
    for encoder in estimate.encoders:
        if encoder.error:
            shown.append(Text.assemble((encoder.name, "bold"), ": ", (encoder.error, "bold red")))
            continue
        shown += [Text.assemble((encoder.name, "bold"), f": {_sentence(encoder)}"), _parts(encoder)]
        for why, titles in _group_untimed(encoder).items():
            shown.append(Text.assemble((listing(titles, 3), "bold"), f": {why}"))
    if estimate.seconds is None or estimate.memory_bytes is None:
        return [*shown, Text("No estimate: none of the encoders could be run.", style="bold")]
    shown.append(Text(_sum(estimate, estimate.seconds, estimate.memory_bytes), style="bold"))
    if estimate.budget is not None:
        shown.append(Text(_explain_budget(estimate.budget, estimate), style="bold"))
    if estimate.more is not None:
        shown.append(Text(_extrapolate(estimate.more, estimate), style="bold"))
    return [*shown, *map(Text, estimate.balls), Text(_small_print(estimate), style="dim")]


def _sentence(encoder: EncoderEstimate) -> str:
    unit = encoder.unit_seconds
    assert unit is not None  # it ran
    per_image = f"{unit.forward * 1e3:.3g} ms forward, {unit.forward_and_backward * 1e3:.3g} ms with the gradient"
    shards = plural(encoder.shards, "shard")
    stored = f"{shards}, none kept" if encoder.stored is None else f"{encoder.stored:,} of {shards} stored"
    device = encoder.device_memory_bytes
    return (
        f"{_time(encoder.seconds, encoder.at_most, encoder.at_least)}; "
        f"{memory(encoder.memory_bytes)}{'' if device is None else f' and {memory(device)} on the device'}; "
        f"{memory(encoder.disk_bytes)} on disk; "
        f"per image {per_image} at batches of {encoder.batch_size}; {stored}"
    )


def _parts(encoder: EncoderEstimate) -> Table:
    """Return what costs most, dearest first; what hardly counts in one line."""
    # Dearest first
    total = sum(part.seconds for part in encoder.parts) or 1.0
    ordered = sorted(encoder.parts, key=lambda part: -part.seconds)
    # What nobody could time is named even where it looks short
    small = [part for part in ordered if part.seconds < SHOWN * total and not _unknown(part)]
    rows: list[list[str | Text]] = []
    for part in [part for part in ordered if part not in small]:
        title = part.title if part.kind != "scores" else f"comparing representations: {part.title}"
        time, share = _sign([part]) + duration(part.seconds), f"{part.seconds / total:.0%}"
        rows.append([title, count(part.images or None), time, share, Text(listing(part.serves, 4), style="dim")])

    # The others together
    if small:
        seconds = sum(part.seconds for part in small)
        time, share = _sign(small) + duration(seconds), f"{seconds / total:.0%}"
        rows.append([plural(len(small), "more part"), "", time, share, ""])
    return Table(("what", "images", "time", "share", "for"), rows, words=(0, 4))


def _unknown(part: PartEstimate) -> bool:
    """Whether it must be named however short it seems: pairs, or a proof, of which nothing was done."""
    return part.at_least and (not part.guessed or part.passes.bounds > 0 or part.kind == "scores")


def _sign(parts: Sequence[PartEstimate]) -> str:
    """Return "≥ " before a time that is a lower bound, "≤ " before one that is an upper bound."""
    return "≥ " if any(part.at_least for part in parts) else "≤ " if any(part.at_most for part in parts) else ""


def _group_untimed(encoder: EncoderEstimate) -> dict[str, list[str]]:
    """Return what cannot be certified, and what was not timed, by the reason."""
    untimed: dict[str, list[str]] = {}
    for part in encoder.parts:
        if part.guessed or part.how.startswith("not certified"):
            untimed.setdefault(part.how, []).append(part.title)
    return untimed


def _sum(estimate: Estimate, seconds: Seconds, memory_bytes: int) -> str:
    encoders = [encoder for encoder in estimate.encoders if not encoder.error]
    workers = "" if estimate.workers == 1 else f" on {estimate.workers} workers"
    part = "" if estimate.shard is None else f"part {estimate.shard}: "
    time = _time(seconds, any(encoder.at_most for encoder in encoders), estimate.at_least)
    broken = len(estimate.encoders) - len(encoders)
    without = f", without {plural(broken, 'encoder')} that cannot be run" if broken else ""
    images = f"{plural(estimate.images, 'image')}, {estimate.attacked:,} attacked"
    sizes = f"{memory(memory_bytes)}; {memory(estimate.disk_bytes)} on disk"
    return f"{part}{plural(len(encoders), 'encoder')}{without}, {images}: {time}{workers}; {sizes}"


def _explain_budget(budget: Budget, estimate: Estimate) -> str:
    """Return what the command does within its budget: it may end long before all images are attacked."""
    within, attacked = duration(budget.seconds), estimate.attacked
    about = "at least" if estimate.at_least else "about"
    if budget.attacked >= attacked and budget.takes <= budget.seconds:
        return f"All of it {'may fit' if estimate.at_least else 'fits'} the budget of {within}."
    only = ", and asks only the measures that answer in a sentence" if budget.answers_only else ""
    took = f"{about} {duration(budget.takes)}"
    images = f"{budget.attacked:,} of {attacked:,} images"
    if budget.takes > budget.seconds:
        ends = (
            f"The first round alone takes {took}, more than the budget of {within}; it is always made, and the command "
            f"ends with it: it attacks {images}{only}. Fewer --images make it shorter"
        )
    elif budget.answers_only:
        ends = f"The budget is {within}: the command ends after its first round, {took}, which attacks {images}{only}"
    else:
        up_to = "at most" if estimate.at_least else "about"
        ends = f"The budget is {within}: the command ends with {up_to} {images} attacked"
    return f"{ends}; --budget none attacks all."


def _extrapolate(more: MoreImages, estimate: Estimate) -> str:
    """Return what as many images as were asked for would take, which are not there."""
    about = "at least" if estimate.at_least else "about"
    return (
        f"{more.images:,} images were asked for, and {estimate.images:,} are there: the above is for these. "
        f"{more.images:,} like them, of which {more.attacked:,} are attacked, would take {about} "
        f"{duration(more.seconds)} without a budget."
    )


def _small_print(estimate: Estimate) -> str:
    stored = any(encoder.stored for encoder in estimate.encoders)
    shards = "Nothing was kept: to read and represent all images takes longer than half of --calibrate."
    if stored:
        shards = f"What was computed is kept in {estimate.folder}, and the audit goes on from it."
    signs = "".join(
        text
        for text, used in (
            (" ≤: at most, for it may end early.", any(encoder.at_most for encoder in estimate.encoders)),
            (" ≥: at least; none of it finished while timing.", estimate.at_least),
        )
        if used
    )
    return (
        f"Timing took {duration(estimate.calibration_seconds)}. In brackets: two standard errors.{signs} The start of "
        f"the program, pictures and the report come on top. {shards}"
    )


def _time(seconds: Seconds, at_most: bool, at_least: bool) -> str:
    if at_least:
        return f"at least {duration(seconds.expected)}"
    about = "at most" if at_most else "about"
    return f"{about} {duration(seconds.expected)} [{duration(seconds.low)}, {duration(seconds.high)}]"


def memory(size: int) -> str:
    """Return "560 MiB" or "2.1 GiB"."""
    return f"{size / 2**20:,.0f} MiB" if size < 2**30 else f"{size / 2**30:,.1f} GiB"
