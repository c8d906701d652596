"""What a record says of the rounds in which it was made: how far it has come, and how it goes on."""

from math import ceil

from holdfast.report.numbers import count, duration
from holdfast.storage.record import Record, Rounds

SPARE = 1.25
"""How much longer a budget should be than a round is expected to take."""

GOES_ON = {
    "budget": ("a further round would not end within {budget}, the budget; {same} goes on from here"),
    "too little": (
        "the first round, which is always made, took {took}, longer than the budget of {budget}; fewer --images make "
        "it shorter, and {same} goes on from here"
    ),
    "until": "it was asked to go on until {until}; the same command with a higher aim goes on from here",
    "calls": ("a further round would need more calls than --calls allows; the same command with more of them goes on"),
    "interrupted": "it was interrupted; the same command goes on from here",
}
"""Why there was no further round, and what to do about it, by `ended`; "too little" of a budget, by what it took."""


def explain_stop(record: Record) -> str:
    """Return how far an audit in rounds came and why it stopped; "" where it is complete, or was made in one go."""
    rounds = record.run.rounds
    if rounds is None or rounds.ended in (None, "complete"):
        return ""
    budget, took = rounds.budget, record.run.seconds
    is_first = rounds.number == 1 and not rounds.before  # later commands read again what the first one took
    too_little = rounds.ended == "budget" and budget is not None and is_first and took > budget
    why = GOES_ON["too little" if too_little else rounds.ended].format(
        budget="" if budget is None else duration(budget),
        took=duration(took),
        until=rounds.until,
        same=_same_command(rounds),
    )
    questions = ", and of the measures only those that answer in a sentence" if rounds.answers_only else ""
    return f"{count(record.data.attacked)} of {count(rounds.of)} images were attacked{questions}: {why}."


def _same_command(rounds: Rounds) -> str:
    """Return what to type to go on: the same again, unless its budget is too short for a further round."""
    if rounds.budget is None or rounds.needs is None:
        return "the same command with a larger --budget"
    if rounds.needs <= rounds.budget:
        return "the same command"
    # a machine is not always as fast as it was
    enough = SPARE * rounds.needs
    budget = f"{10 * ceil(enough / 10)}s" if enough < 60 else f"{ceil(enough / 60)}m"
    return f"the same command with --budget {budget}"
