"""The answers that begin a report: what measures say in words, what that is like, and how far it may be believed."""

from collections.abc import Collection
from dataclasses import dataclass

from holdfast.core.doubts import say_failed
from holdfast.report.numbers import decapitalise, listing, plural
from holdfast.report.references import likeness
from holdfast.report.verdict import Sentence
from holdfast.storage.record import DataEntry, EncoderEntry, MeasureEntry, Record
from holdfast.storage.standing import SOUND, VOID


@dataclass(frozen=True)
class Answer:
    """What a measure says of an encoder, with the standing of its headline.

    Attributes:
        called: what checks call the encoder, such as "Looks untrained"; "" for most.
        says: the answer, as a sentence that lacks its first capital and its end.
        further: sentences that follow.
        tone: "plain" of a sound number, "warn" of a bound, "bad" of one that means little or nothing.
        is_number: whether the headline says as much.
    """

    called: str
    says: str
    further: tuple[str, ...]
    tone: str
    is_number: bool = False

    @property
    def sentence(self) -> Sentence:
        """All of it."""
        start = f"{self.called}: {self.says}" if self.called else f"{self.says[:1].upper()}{self.says[1:]}"
        return Sentence(" ".join((f"{start}.", *self.further)), self.tone)


def answers(record: Record, closing: bool = True) -> list[tuple[str, Sentence]]:
    """Return (encoder, answer): what measures say in words, how far it may be believed, and what the checks say."""
    lines: list[tuple[str, Sentence]] = []
    for encoder in record.encoders:
        measures = encoder.measures.values()
        answered = [said.sentence for m in measures if (said := answer(m, encoder, record.data))]
        if answered and closing:  # what is about images or the encoder is said once
            last = answered.pop()
            words = filter(None, (last.text, duplicates(record.data), _trust(encoder)))
            answered.append(Sentence(" ".join(words), last.tone))
        lines += [(encoder.name, sentence) for sentence in answered]
    return lines


def diagnose(encoder: EncoderEntry, by: Collection[str] | None = None) -> str:
    """Return what checks call an encoder before all else, such as "Looks untrained"; "" where they call it nothing.

    Args:
        encoder: its entry in the record.
        by: which checks; None: all.
    """
    keys = encoder.checks if by is None else by
    names = [check.called for key in keys if (check := encoder.checks.get(key)) and check.called]
    return listing([names[0], *map(decapitalise, names[1:])]) if names else ""


def explain_diagnosis(encoder: EncoderEntry) -> str:
    """Return what checks found of an encoder that they call something; "" where they call it nothing."""
    return "; ".join(check.finding for check in encoder.checks.values() if check.called and check.finding)


def answer(measure: MeasureEntry, encoder: EncoderEntry, data: DataEntry) -> Answer | None:
    """Return what a measure says in words; None of most, which say nothing."""
    words, headline = measure.in_words, measure.headline_score
    if not words or headline is None:
        return None
    standing, because = headline.standing, headline.because
    called = diagnose(encoder, because if standing == VOID else None)
    if standing == VOID:
        nothing = f"{decapitalise(measure.title)} means nothing here: {say_failed(because)}"
        return Answer(called, nothing, (), "bad")

    # what a sound number is like; of a bound how far it is one; of what learned nothing that it means little
    says, further, tone = words.says, tuple(words.further), "plain"
    if standing != SOUND:
        side = "smaller" if standing == "at most" else "larger"
        doubt = f"This is only a limit, because {say_failed(because)}: the truth may be far {side}."
        further, tone = (doubt, *further), "warn"
    elif called:
        says, tone = f"{says}: for such an encoder this means little", "bad"
    elif like := likeness(measure, encoder, data):
        further = (*further, like)
    return Answer(called, says, further, tone, words.is_number)


def duplicates(data: DataEntry) -> str:
    """Return how many images show the picture of another one, where any do."""
    if not data.duplicates or data.duplicates_left_out:
        return ""
    copies = len({pair.image for pair in data.duplicates})
    pictures = plural(data.images - copies, "picture")
    are = "is a copy of another one" if copies == 1 else "are copies of others"
    return (
        f"{copies} of {plural(data.images, 'image')} {are}: values and intervals count {pictures}. "
        "No encoder can hold copies far apart; --skip-duplicates leaves them out."
    )


def _trust(encoder: EncoderEntry) -> str:
    """Return which checks of an encoder did not pass."""
    checks = list(encoder.checks.values())
    named = {status: listing([c.title.lower() for c in checks if c.status == status], 8) for status in ("fail", "warn")}
    if not any(c.status == "pass" for c in checks):
        return "Trust: no check was run."
    if not any(named.values()):
        return "Trust: all checks passed."
    words = [
        f"{named['fail']} failed" if named["fail"] else "",
        f"warnings of {named['warn']}" if named["warn"] else "",
    ]
    return f"Trust: {'; '.join(filter(None, words))}."
