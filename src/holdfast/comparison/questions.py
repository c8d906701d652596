"""Which measures of several audits are one question: equal specs, and equal labels where they read any."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from holdfast.comparison.conditions import short
from holdfast.comparison.pareto import pick as pick_measures
from holdfast.comparison.records import Audited
from holdfast.config.requirements import measure_of
from holdfast.core import Measure, registry
from holdfast.core.naming import flatten, name_parts, titles
from holdfast.runtime.errors import BadValue, first_line, pick
from holdfast.storage.conditions import question, read_supervision
from holdfast.storage.record import MeasureEntry

Answer = tuple[Audited, MeasureEntry]
"""An encoder, and the entry of a measure in its record."""


@dataclass(frozen=True)
class Question:
    """A measure that some encoders were asked alike.

    Attributes:
        name: of the measure among all questions.
        measure: the measure, built from its spec.
        answers: the encoders, each with the entry of the measure in its record.
        title: what people call it, told apart from those of other audits too.
        of_headline: whether the headline is compared; else one of its other scores, which is the headline of `answers`.
    """

    name: str
    measure: Measure
    answers: list[Answer]
    title: str
    of_headline: bool = True

    @property
    def better(self) -> str:
        """Which direction is more robust."""
        return self.answers[0][1].better

    def ask(self, score: str) -> "Question":
        """Return the question whose answers are another score of the measure.

        Args:
            score: its name.

        Raises:
            HoldfastError: a score that nobody has, or of which no direction is better.
        """
        has = {name: told for _, entry in self.answers for name, told in entry.scores.items()}
        told = pick(f"score of {self.name}", score, has)
        if told.better == "neither":
            raise BadValue(
                f"{self.name}.{score}: expected a score that says how robust an encoder is, got one that describes it: "
                "neither direction is better; look at its values, and compare another one"
            )
        answers = [(encoder, _with_headline(entry, score)) for encoder, entry in self.answers]
        return Question(f"{self.name}.{score}", self.measure, answers, f"{self.title}, {score}", of_headline=False)


def questions(encoders: Sequence[Audited], fewest: int) -> tuple[list[Question], list[str]]:
    """Return the measures that at least so many encoders were asked alike, and why others are left out."""
    # the answers to each question
    groups: dict[str, list[Answer]] = {}
    for encoder in encoders:
        for entry in encoder.entry.measures.values():
            groups.setdefault(question(encoder.run.record, entry), []).append((encoder, entry))
    # the measures of those that enough encoders were asked
    left_out, built = [], {}
    for key, answers in groups.items():
        if len(answers) < fewest:
            left_out.append(_alone(key, answers, groups))
            continue
        encoder, entry = answers[0]
        try:
            built[key] = registry.build(entry.part)
        except Exception as error:
            name, where = entry.part["name"], encoder.run.place
            files = encoder.run.record.holdfast.parts
            command = f"holdfast --parts {' --parts '.join(files)} compare"
            own = f"; parts of its own are in {', '.join(files)}: {command} ..." if files else ""
            left_out.append(f"{name} is left out: its spec in {where!r} cannot be built ({first_line(error)}{own})")
    # their names, told apart by what differs
    named = name_parts(dict.fromkeys(built.values()))
    labels, called = {json.dumps(registry.spec(part)): name for name, part in named.items()}, titles(named)
    questions: dict[str, Question] = {}
    for key, measure in built.items():
        name = labels[json.dumps(registry.spec(measure))]
        title = called[name]
        if name in questions:  # one measure, other labels
            name += f" ({groups[key][0][0].run.place})"
        questions[name] = Question(name, measure, groups[key], title)
    return list(questions.values()), left_out


def _with_headline(entry: MeasureEntry, score: str) -> MeasureEntry:
    """Return an entry whose headline is another one of its scores; without one where it has none of that name."""
    if (told := entry.scores.get(score)) is None:
        return structs.replace(entry, headline=None, error=entry.error or f"it has no score {score!r}")
    # What the measure says of all its scores holds where the score says nothing else
    unit = told.unit or entry.unit
    return structs.replace(
        entry, headline=score, unit=unit, better=told.better or entry.better, in_words=None, in_brief=False,
        levels=entry.levels and unit == entry.unit,
    )  # fmt: skip


def select(known: Sequence[Question], wanted: Sequence[str]) -> list[Question]:
    """Return the questions that names mean: MEASURE, see `pareto.pick`, or MEASURE.SCORE.

    Args:
        known: all questions.
        wanted: names, such as "retrieval" or "retrieval.recall@5, worst found".

    Raises:
        HoldfastError: a name of neither.
    """
    asked = {question.name: question for question in known}
    parts = {question.name: question.answers[0][1].part for question in known}
    selected: dict[str, Question] = {}
    for text in wanted:
        # A measure's name may hold dots: what is a measure is none of its scores
        name = measure_of(text, asked)
        if name is not None and text != name:
            one = asked[name].ask(text[len(name) + 1 :])
            selected[one.name] = one
        else:
            selected |= {name: asked[name] for name in pick_measures(parts, [text])}
    return list(selected.values())


def _alone(key: str, answers: list[Answer], groups: dict[str, list[Answer]]) -> str:
    """Return why a measure that few were asked is left out: nobody else was asked, or others with other parameters."""
    (first, entry), name = answers[0], answers[0][1].part["name"]
    start = f"{name} of {', '.join(encoder.name for encoder, _ in answers)} is left out: "
    rivals = [group for k, group in groups.items() if k != key and group[0][1].part["name"] == name]
    if not rivals:
        return f"{start}no other encoder was asked"
    second, rival = max(rivals, key=len)[0]
    a, b = flatten(entry.part), flatten(rival.part)
    if a == b:
        a, b = read_supervision(first.run.record), read_supervision(second.run.record)
    differing = [key for key in dict.fromkeys((*a, *b)) if a.get(key) != b.get(key)]
    pairs = ", ".join(f"{key} is {short(a.get(key))} and {short(b.get(key))}" for key in differing[:4])
    return f"{start}{pairs} in {first.run.place!r} and {second.run.place!r}"
