"""What an audit will take: what the command does as it was typed, then each encoder and what costs most in it."""

from collections.abc import Sequence

from rich.text import Text

from holdfast.report.document import Block, Document
from holdfast.report.numbers import count, duration, listing, plural
from holdfast.report.table import Table
from holdfast.storage.estimate import Budget, EncoderEstimate, Estimate, MoreImages, PartEstimate, Seconds

SHOWN = 0.005
"""Share of an encoder's time below which parts are put together."""


def document(estimate: Estimate) -> Document:
    """Return what the command will do, and then the expected time and memory of every encoder."""
    shown: list[Block] = []
    if estimate.seconds is None or estimate.memory_bytes is None:
        shown.append(Text("No estimate: none of the encoders could be run.", style="bold"))
    else:
        shown.append(Text(_answer(estimate, estimate.seconds), style="bold"))
        shown.append(
            Text(f"It needs {memory(estimate.memory_bytes)} of memory and {memory(estimate.disk_bytes)} on disk.")
        )
        if estimate.more is not None:
            shown.append(Text(_extrapolate(estimate.more, estimate), style="bold"))
        shown += [Text(f"Attacked: {ball}") for ball in estimate.balls]
    for encoder in estimate.encoders:
        if encoder.error:
            shown.append(Text.assemble((encoder.name, "bold"), ": ", (encoder.error, "bold red")))
            continue
        shown += [Text.assemble((encoder.name, "bold"), f": {_sentence(encoder, estimate)}"), _parts(encoder)]
        shown += [Text(f"{encoder.sends}.", style="bold")] if encoder.sends else []
        for why, titles in _group_untimed(encoder).items():
            shown.append(Text.assemble((listing(titles, 3), "bold"), f": {why}"))
    return [*shown, Text(_small_print(estimate), style="dim")] if estimate.seconds is not None else shown


def _sentence(encoder: EncoderEstimate, estimate: Estimate) -> str:
    """Return what an encoder has to do for all images, and what that costs."""
    unit, passes = encoder.unit_seconds, encoder.passes
    assert unit is not None  # it ran
    forward = f"{count(passes.forward - passes.backward)} forward ({unit.forward * 1e3:.3g} ms each)"
    both = f"{count(passes.backward)} forward and backward ({unit.forward_and_backward * 1e3:.3g} ms each)"
    most = "at most " if encoder.at_most else ""
    device = encoder.device_memory_bytes
    on_device = "" if device is None else f"; {memory(device)} on the device"
    return (
        f"{_time(encoder.seconds, encoder.at_most, encoder.at_least)} for {_images(estimate)}. It sends "
        f"{most}{count(passes.forward)} images through the encoder, in batches of {encoder.batch_size}: "
        f"{f'{forward}, {both}' if passes.backward else forward}{on_device}."
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
    """Return what could not be timed, by the reason; the small print says it of what has a lower bound."""
    untimed: dict[str, list[str]] = {}
    for part in encoder.parts:
        if part.how.startswith("not certified") or (part.guessed and not part.at_least):
            untimed.setdefault(part.how, []).append(part.title)
    return untimed


def _images(estimate: Estimate) -> str:
    return f"{plural(estimate.images, 'image')}, {estimate.attacked:,} attacked"


def _answer(estimate: Estimate, seconds: Seconds) -> str:
    """Return what the command does as it was typed, and what all of it would take where its budget ends it before."""
    # Who is audited, and for how long
    encoders = [encoder for encoder in estimate.encoders if not encoder.error]
    broken = len(estimate.encoders) - len(encoders)
    who = plural(len(encoders), "encoder")
    if broken:
        who += f", without {plural(broken, 'encoder')} that cannot be run"
    if estimate.shard is not None:
        who = f"part {estimate.shard}: {who}"
    time = _time(seconds, any(encoder.at_most for encoder in encoders), estimate.at_least)
    if estimate.workers > 1:
        time += f" on {estimate.workers} workers"
    # What the budget leaves of it
    if (budget := estimate.budget) is None:
        return f"This command takes {time} ({who}, {_images(estimate)})."
    if budget.attacked >= estimate.attacked and budget.takes <= budget.seconds:
        enough = "may be" if estimate.at_least else "is"
        within = f"Its budget of {duration(budget.seconds)} {enough} enough."
        return f"This command takes {time} ({who}, {_images(estimate)}). {within}"
    return f"{_end_of_budget(budget, estimate)} All of it takes {time} ({who}, {_images(estimate)}): --budget none."


def _end_of_budget(budget: Budget, estimate: Estimate) -> str:
    """Return what the command does within its budget, which ends it before all images are attacked."""
    within = duration(budget.seconds)
    about, up_to = ("at least", "at most") if estimate.at_least else ("about", "about")
    took = f"{about} {duration(budget.takes)}"
    images = f"{budget.attacked:,} of {estimate.attacked:,} images"
    if budget.answers_only:
        images += " and asks only the measures that answer in a sentence"
    if budget.takes > budget.seconds:
        return (
            f"This command takes {took}, longer than its budget of {within}: it ends after its first round, which is "
            f"always made. That attacks {images}. Fewer --images make it shorter."
        )
    if budget.answers_only:
        return (
            f"This command takes {took}: its budget of {within} is not enough for a second round. The first attacks "
            f"{images}."
        )
    return f"This command ends after {within}, its budget, with {up_to} {images} attacked."


def _extrapolate(more: MoreImages, estimate: Estimate) -> str:
    """Return what as many images as were asked for would take, which are not there."""
    about = "at least" if estimate.at_least else "about"
    return (
        f"{more.images:,} images were asked for, and {estimate.images:,} are there: the above is for these. "
        f"{more.images:,} like them, of which {more.attacked:,} are attacked, would take {about} "
        f"{duration(more.seconds)} without a budget."
    )


def _small_print(estimate: Estimate) -> str:
    stored = sum(encoder.stored or 0 for encoder in estimate.encoders)
    shards = "A service gets a few images to be timed, and nothing of it is kept."
    more = ""
    if not all(encoder.sends for encoder in estimate.encoders):
        more = "; a longer --calibrate times more"
        shards = "Nothing was kept: to read and represent all images takes longer than half of --calibrate."
    if stored:
        of = plural(sum(encoder.shards for encoder in estimate.encoders), "shard")
        shards = f"What was computed, {stored:,} of {of}, is kept in {estimate.folder}, and the audit goes on from it."
    signs = "".join(
        text
        for text, used in (
            (" ≤: at most, for it may end early.", any(encoder.at_most for encoder in estimate.encoders)),
            (
                f" ≥: at least, for none of it ended while timing, and its passes alone were counted{more}.",
                estimate.at_least,
            ),
        )
        if used
    )
    return (
        f"Timing took {duration(estimate.calibration_seconds)}; what that leaves open stands in brackets (two standard "
        f"errors).{signs} The start of the program, pictures and the report come on top. {shards}"
    )


def _time(seconds: Seconds, at_most: bool, at_least: bool) -> str:
    if at_least:
        return f"at least {duration(seconds.expected)}"
    about = "at most" if at_most else "about"
    return f"{about} {duration(seconds.expected)} [{duration(seconds.low)}, {duration(seconds.high)}]"


def memory(size: int) -> str:
    """Return "560 MiB" or "2.1 GiB"."""
    if size < 2**20:
        return "less than 1 MiB"
    return f"{size / 2**20:,.0f} MiB" if size < 2**30 else f"{size / 2**30:,.1f} GiB"
