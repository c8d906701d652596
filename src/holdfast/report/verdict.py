"""What the record says, in plain sentences: only what its intervals and checks support."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from holdfast.report.documents.hardening import price
from holdfast.report.numbers import count, listing, plural, score
from holdfast.report.rounds import explain_stop
from holdfast.storage.record import EncoderEntry, Record
from holdfast.storage.standing import find_bars, format_bar, is_rival


@dataclass(frozen=True)
class Sentence:
    """One sentence of the verdict; tone is "plain", "good", "warn" or "bad"."""

    text: str
    tone: str = "plain"


def winners(record: Record) -> list[Sentence]:
    """Return who is best on which measures, where intervals say so, and what it cost."""
    audited = [e for e in record.encoders if not e.error]
    return [*_winners(record, audited), *costs(record)]


def doubts(record: Record) -> list[Sentence]:
    """Return which checks failed or warn, and of whom."""
    return _doubts([e for e in record.encoders if not e.error])


def scope(record: Record) -> str:
    """Return what was audited on what, in a few words."""
    audited = [e for e in record.encoders if not e.error]
    data = record.data
    if data.synthetic:
        images = "synthetic images alone"
    else:
        so_far = " so far" if explain_stop(record) else ""
        images = f"{count(data.images)} images of {data.spec}, {count(data.attacked)} attacked{so_far}"
    return f"{plural(len(audited), 'encoder')} on {images}"


def titles(record: Record) -> dict[str, str]:
    """Return the title of every measure of the record, in the order of first appearance."""
    return {key: m.title for e in record.encoders for key, m in e.measures.items()}


def find_best(record: Record, key: str) -> str | None:
    """Return which encoder is best on a measure; None where intervals leave it open, or a check bars it."""
    compared = record.comparison.get(key)
    barred = {encoder.name for encoder in record.encoders if find_bars(encoder, record.plan.allow)}
    return compared.best if compared and compared.best not in barred else None


def explain_bar(record: Record, names: Collection[str]) -> str:
    """Return why none of some encoders is called best, whatever the intervals say: a check and what it found; or ""."""
    encoders = (encoder for encoder in record.encoders if encoder.name in names)
    bars = [bar for encoder in encoders for bar in find_bars(encoder, record.plan.allow) if not bar.called]
    return format_bar(bars[0]) if bars else ""


def threats(record: Record) -> list[str]:
    """Return the balls that the measures' adversaries search, in words."""
    return list(record.data.balls)


def rendering(record: Record) -> list[str]:
    """Return what was done with images unasked: how they got an encoder's size, what was not read, what is unusual.

    Encoders are named unless the same was done for all.
    """
    audited = [encoder for encoder in record.encoders if not encoder.error]
    names: dict[str, list[str]] = {}
    for encoder in audited:
        guessed = encoder.geometry.assumed if encoder.geometry else ""
        lines = [encoder.rendering or (f"pictures of mixed shapes: {guessed}" if guessed else "")]
        lines += ["?size=H in the data spec chooses another size"] if guessed else []
        if how := "; ".join(filter(None, lines)):
            names.setdefault(how, []).append(encoder.name)
    some = (f"for {listing(of, 8)}: {how}" if len(of) < len(audited) else how for how, of in names.items())
    training = record.data.train.notes if audited and record.data.train else []
    return [*some, *record.data.notes, *(f"training images: {line}" for line in training)]


def _winners(record: Record, audited: list[EncoderEntry]) -> list[Sentence]:
    names = titles(record)
    if len(audited) < 2:
        return [_alone(audited[0])] if audited else []
    wins: dict[str, list[str]] = {}
    open_: list[str] = []
    for key, title in names.items():
        best = find_best(record, key)
        (wins.setdefault(best, []) if best else open_).append(title.lower())
    lines = []
    for name, measures in sorted(wins.items(), key=lambda item: -len(item[1])):
        every = len(measures) == len(names) > 1
        all_ = "both" if len(names) == 2 else f"all {len(names)}"
        where = f"{all_} measures" if every else listing(measures, 8)
        lines.append(Sentence(f"{name} is best on {where}, image by image, after correction.", "good"))
    if partial := [title.lower() for key, title in names.items() if _partial(key, record, audited)]:
        lines.append(Sentence(f"On {listing(partial, 8)}, best means best among the encoders that have a number."))
    if open_ and wins:
        lines.append(Sentence(f"No encoder is clearly best on {listing(open_, 8)}."))
    elif sum(is_rival(encoder, record.plan.allow) for encoder in audited) < 2:
        lines.append(Sentence("Fewer than two encoders can be ranked: see what the checks call the others.", "warn"))
    elif open_ and (bar := explain_bar(record, [encoder.name for encoder in audited])):
        lines.append(Sentence(f"No encoder is called best, because the check {bar}.", "warn"))
    elif open_:
        lines.append(Sentence("No encoder is clearly best on any measure: the paired intervals leave it open."))
    return lines


def costs(record: Record) -> list[Sentence]:
    """Return what the better one of two cost, where it was made by hardening the other."""
    if not (hardening := record.hardening):
        return []
    lines = [Sentence(f"The price of the hardening: {price(hardening)}")]
    return lines + [Sentence(f"{line[0].upper()}{line[1:]}.", "warn") for line in hardening.warnings]


def _partial(key: str, record: Record, audited: list[EncoderEntry]) -> bool:
    """Return whether someone is best on a measure that not every encoder has a number for."""
    scores = [m.headline_score for e in audited if (m := e.measures.get(key)) and not m.error]
    numbers = [score for score in scores if score and score.value is not None]
    return bool(find_best(record, key)) and len(numbers) < len(audited)


def _alone(encoder: EncoderEntry) -> Sentence:
    values = [
        f"{m.title.lower()} {score(headline, m.unit)}"
        for m in encoder.measures.values()
        if not m.error and (headline := m.headline_score)
    ]
    if not values:
        return Sentence("None of its measures gave a number.", "bad")
    return Sentence(f"It shows {listing(values, 4)}. One encoder was audited, so there is no comparison.")


def explain_uncertified(encoders: list[EncoderEntry]) -> list[str]:
    """Return one sentence for every reason why an encoder has no certificates."""
    lines = []
    for encoder in encoders:
        reasons: dict[str, list[str]] = {}
        for m in encoder.measures.values():
            if m.not_certified:
                reasons.setdefault(m.not_certified.removeprefix("not certified: "), []).append(m.title.lower())
        lines += [f"{encoder.name} is not certified ({listing(t, 8)}): {why}." for why, t in reasons.items()]
    return lines


def list_omissions(record: Record) -> list[str]:
    """Return which entries of lists were left out, of which measures and encoders, and why."""
    missed: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for encoder in record.encoders:
        for m in encoder.measures.values():
            for entry, why in m.left_out.items():
                names = missed.setdefault((entry, why.rstrip(".")), {"measures": {}, "encoders": {}})
                names["measures"][m.title] = names["encoders"][encoder.name] = None
    audited, lines = sum(not encoder.error for encoder in record.encoders), []
    for (entry, why), names in missed.items():
        of = list(names["encoders"])
        some = f" for {listing(of, 8)}" if len(of) < audited else ""
        lines.append(f"{listing(list(names['measures']), 8)}{some} without “{entry}”: {why}")
    return lines


def failures(record: Record, wholes: Mapping[str, str] | None = None) -> list[Sentence]:
    """Return what could not be audited, measured or proved, and what was left out.

    Args:
        record: the record.
        wholes: the whole names of encoders, where those of the record are short ones.
    """
    wholes = wholes or {}
    # Encoders and measures that failed, and what nothing proves
    audited = [e for e in record.encoders if not e.error]
    lines = [] if audited else [Sentence("No encoder could be audited.", "bad")]
    lines += [
        Sentence(f"{wholes.get(encoder.name, encoder.name)} could not be audited ({encoder.error.rstrip('.')}).", "bad")
        for encoder in record.encoders
        if encoder.error
    ]
    broken: dict[str, list[str]] = {}
    for encoder in record.encoders:
        for m in encoder.measures.values():
            if m.error:
                broken.setdefault(m.title, []).append(encoder.name)
    lines += [Sentence(f"{title} failed for {listing(names)}.", "bad") for title, names in broken.items()]
    lines += [Sentence(f"{line}.", "warn") for line in list_omissions(record)]
    lines += [Sentence(line, "warn") for line in explain_uncertified(record.encoders)]

    # Images that a further round would attack, or that were left out
    if line := explain_stop(record):
        lines.append(Sentence(line, "warn"))
    if record.data.train and (same := record.data.train.left_out):
        were = "was" if same == 1 else "were"
        lines.append(
            Sentence(f"{plural(same, 'training image')} {were} left out, because the audit has the same.", "warn")
        )
    if skipped := record.data.skipped:
        were = "was" if len(skipped) == 1 else "were"
        lines.append(Sentence(f"{plural(len(skipped), 'file')} could not be read and {were} left out.", "warn"))
    if (alike := record.data.duplicates) and record.data.duplicates_left_out:
        many = len(alike) > 1
        were, others = ("were", "others") if many else ("was", "another one")
        lines.append(
            Sentence(f"{plural(len(alike), 'image')} that look{'' if many else 's'} like {others} {were} left out.")
        )
    return lines


def _doubts(audited: list[EncoderEntry]) -> list[Sentence]:
    """Group checks by what they said, so that twenty encoders with one fault make one sentence."""
    names: dict[str, dict[str, list[str]]] = {"fail": {}, "warn": {}}
    for encoder in audited:
        for check in encoder.checks.values():
            if check.status in names:
                names[check.status].setdefault(check.title.lower(), []).append(encoder.name)
    lines = [
        Sentence(f"The check “{title}” failed for {listing(flawed)}: what depends on it is a bound, or void.", "bad")
        for title, flawed in names["fail"].items()
    ]
    lines += [
        Sentence(f"The check “{title}” warns about {listing(doubtful)}.", "warn")
        for title, doubtful in names["warn"].items()
    ]
    if audited and not lines:
        ran = any(c.status == "pass" for e in audited for c in e.checks.values())
        lines.append(Sentence("Every validity check passed.", "good") if ran else Sentence("No check was run.", "warn"))
    return lines
