"""The answers that begin a report: what measures say in words, what that is like, and how far it may be believed."""

from collections.abc import Mapping
from typing import Any

from holdfast.report.numbers import listing, plural
from holdfast.report.references import likeness
from holdfast.report.verdict import Sentence
from holdfast.storage.standing import SOUND, VOID


def answers(record: Mapping[str, Any], closing: bool = True) -> list[tuple[str, Sentence]]:
    """Return (encoder, answer): what measures say in words, how far it may be believed, and what the checks say.

    Args:
        record: the record.
        closing: whether each encoder's last answer ends with what is about all images, and about all checks.
    """
    lines: list[tuple[str, Sentence]] = []
    for encoder in record["encoders"]:
        measures = encoder.get("measures", {}).values()
        answered = [answer for m in measures if (answer := _answer(m, encoder, record["data"]))]
        if answered and closing:  # what is about images or the encoder is said once
            last = answered.pop()
            words = filter(None, (last.text, duplicates(record["data"]), _trust(encoder)))
            answered.append(Sentence(" ".join(words), last.tone))
        lines += [(encoder["name"], answer) for answer in answered]
    return lines


def called(encoder: Mapping[str, Any]) -> str:
    """Return what checks call an encoder before all else, such as "Looks untrained"; "" where they call it nothing."""
    names = [c["called"] for c in encoder["checks"].values() if c.get("called")]
    return listing([names[0], *(name[:1].lower() + name[1:] for name in names[1:])]) if names else ""


def _answer(measure: Mapping[str, Any], encoder: Mapping[str, Any], data: Mapping[str, Any]) -> Sentence | None:
    """Return what a measure says in words, with the standing of its headline; None of most, which say nothing."""
    words, headline = measure.get("in_words"), measure["scores"].get(measure["headline"])
    if not words or headline is None:
        return None
    name, standing = called(encoder), headline.get("standing", SOUND)
    failed = listing([check.split("[")[0].replace("_", " ") for check in headline.get("because", ())])
    if standing == VOID:
        void = f"{measure['title']} means nothing here: the check {failed} failed."
        return Sentence(f"{name}: {void[:1].lower()}{void[1:]}" if name else void, "bad")

    # the number itself, what it is called and like; nothing flattering of an encoder that learned nothing
    further = list(words["further"])
    if name:
        line, tone = f"{name}: {words['says']}, which says little of such an encoder.", "bad"
    elif standing == SOUND:
        like = likeness(measure, encoder, data) if words["called"] else ""
        names = ", ".join(filter(None, (words["called"], like)))
        line, tone = f"{words['says']}{': ' if names else ''}{names}.", "plain"
    else:
        side = "worse" if (standing == "at most") == (measure["better"] == "higher") else "better"
        names = f": {words['called']} or {side}" if words["called"] else ""
        line, tone = f"{words['says']}{names}.", "warn"
    if standing != SOUND:
        further.insert(0, f"The truth is {standing} that: the check {failed} failed.")
    return Sentence(" ".join((f"{line[:1].upper()}{line[1:]}", *further)), tone)


def duplicates(data: Mapping[str, Any]) -> str:
    """Return how many images are nearly the same as others, where any are among them."""
    alike = data.get("duplicates") or []
    if not alike or data.get("duplicates_left_out"):
        return ""
    are = "is" if len(alike) == 1 else "are"
    return (
        f"{plural(len(alike), 'image')} {are} nearly the same as another one, which no encoder can hold far from it: "
        "--skip-duplicates leaves such images out."
    )


def _trust(encoder: Mapping[str, Any]) -> str:
    """Return which checks of an encoder did not pass."""
    checks = list(encoder["checks"].values())
    named = {
        status: listing([c["title"].lower() for c in checks if c["status"] == status], 8) for status in ("fail", "warn")
    }
    if not any(c["status"] == "pass" for c in checks):
        return "Trust: no check was run."
    if not any(named.values()):
        return "Trust: all checks passed."
    words = [
        f"{named['fail']} failed" if named["fail"] else "",
        f"warnings of {named['warn']}" if named["warn"] else "",
    ]
    return f"Trust: {'; '.join(filter(None, words))}."
