"""One encoder is scored: what was observed becomes tables, scores, verdicts of checks, and its entry in the record."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import msgspec
from jaxtyping import Int
from msgspec.structs import replace
from torch import Tensor

from holdfast.auditing import record as entries
from holdfast.auditing.artifacts.attention import write_attention
from holdfast.auditing.artifacts.pictures import album, select_pictured, write_extremes
from holdfast.auditing.encoder_result import EncoderResult, ItemError, at, format_log
from holdfast.auditing.images import first_of_pictures
from holdfast.auditing.misfits import Fitted, drop_misfits, questions_that_fit
from holdfast.auditing.plan import CLEAN, Plan, merge, total_passes
from holdfast.auditing.session import Session
from holdfast.core import Bank, Check, Images, Measure, Observation, Passes, Score, Subject, Table, Threat, registry
from holdfast.core.naming import title
from holdfast.core.randomness import GROUPS, redrawn
from holdfast.numerics.statistics.copies import rows_of_pictures, score_pictures
from holdfast.numerics.statistics.looks import looking
from holdfast.numerics.statistics.redrawn import widen_interval
from holdfast.runtime.foreign import foreign
from holdfast.runtime.listener import Listener
from holdfast.runtime.privacy import public
from holdfast.storage.chart import AnyChart
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.pictured import AttentionEntry, Extremes
from holdfast.storage.record import CheckEntry, EncoderEntry, InWordsEntry, MeasureEntry, ObservationEntry, Spent
from holdfast.storage.run_folder import Store, StoreError, digest
from holdfast.storage.seal import add_seal, unbroken
from holdfast.storage.standing import settle

P = TypeVar("P", Measure, Check)
T = TypeVar("T")


class Scored(NamedTuple):
    """What a measure makes of what was observed: a table, its scores, and the names of its rows."""

    table: Table
    scores: dict[str, Score]
    rows: Any


@dataclass
class Scoring:
    """Scores one encoder of which all shards are made, or lost: measures, checks, pictures, its entry in the record.

    Attributes:
        plan: the plan.
        name: of the encoder.
        slug: of its files.
        store: the run folder.
        listener: told about progress.
        session: the encoder as it was observed.
        lost: why observations could not be made, by their keys; they are not tried again.
    """

    plan: Plan
    name: str
    slug: str
    store: Store
    listener: Listener
    session: Session
    lost: Mapping[Observation, ItemError]

    def __post_init__(self) -> None:
        self._reasons: dict[Observation, dict[str, str]] = {}
        self._failures: list[str] = []
        self._scored: dict[str, tuple[str, Score]] = {}  # tables of millions are not kept in memory
        self._fitted: dict[str, Fitted[Measure]] = {}
        self._served: set[Observation] = set()  # which were made, though those that were joined with them failed
        self._further: dict[Observation, tuple[str, ...]] = {}  # what measures read without entries that do not fit
        self._log = ""

    def run(self) -> EncoderResult:
        """Return the encoder's entry in the record, and what stands beside it."""
        entry = self._entry()
        reduced = {name: each.part for name, each in self._fitted.items() if each.left_out}
        return EncoderResult(entry, self._failures, self._log, self._scored, reduced, remade=self.session.remade)

    def _entry(self) -> EncoderEntry:
        session, images = self.session, self.session.images
        entry = replace(
            entries.encoder_entry(session.encoder, self.slug, images.geometry),
            name=self.name, input=list(images.shape), batch_size=session.batch_size, identity=session.identity,
            rendering=images.rendering,
        )  # fmt: skip

        # Put together what was observed; without clean representations nothing can be scored
        try:
            if (error := self.lost.get(CLEAN.key())) is None:
                session.observe(CLEAN)
        except StoreError:
            raise
        except Exception as raised:
            error = ItemError.of(raised)
        if error is not None:
            return replace(entry, error=self._note(self.name, error), error_code=error.code)
        self._observe()
        self._fitted = {name: self._fit(name, measure) for name, measure in self.plan.measures_by_name.items()}
        checks = {name: self._fit(f"check {name}", check) for name, check in self.plan.checks_by_name.items()}
        readers = dict(self._readers())
        observed = {each: observation_entry(session, each, served) for each, served in readers.items()}
        passes = cost_entry(session, self.plan, list(readers.items()))

        # Score the measures, examine the searches that they rely on, and say what is left of each number
        measures, look = {}, 0 if self.plan.round is None else self.plan.round.look
        files = entries.slugs(list(self.plan.measures_by_name))
        for (name, measure), file in zip(self.plan.measures_by_name.items(), files, strict=True):
            with looking(look):  # intervals that may end the audit hold at every round
                measures[name] = self._measure(name, measure, f"tables/{self.slug}/{file}.parquet")
        session.rely_on(self._find_shared())
        examined = {name: self._check(name, check) for name, check in checks.items()}
        entry = settle(replace(entry, measures=measures, checks=examined), self.plan.allow)
        self._scored = {
            name: (file, entry.measures[name].headline_score or score) for name, (file, score) in self._scored.items()
        }

        # Draw
        for each in readers:
            if each.key() not in self._reasons:
                charts = self._draw("charts", partial(_charts_of, session, each), [])
                observed[each] = replace(observed[each], charts=charts)
        extremes = self._draw("pictures", self._extremes, Extremes())
        pictures: dict[str, list[Any]] = {}
        for each, number in select_pictured(session):
            draw = partial(self._pictures, each, number, readers[each])
            pictures.setdefault(each.shows, []).extend(self._draw(f"pictures of {each.title}", draw, []))
        parts = [fit.part for fit in self._fitted.values()]
        attention = self._draw(
            "attention maps", lambda: write_attention(self.store, session, self.slug, parts), AttentionEntry()
        )
        return replace(
            entry, dim=session.read(CLEAN)["reps"].shape[1], observations=list(observed.values()), passes=passes,
            extremes=extremes, attention=attention, **pictures,
        )  # fmt: skip

    def _pictures(self, observation: Observation, number: int, readers: tuple[str, ...]) -> list[Any]:
        """Return what the record says of an observation's pictures."""
        leaves = album(self.store, self.session, self.slug, number, readers)
        return entries.picture_entries(observation.shows, observation.pictures(self.session.read(observation), leaves))

    def _draw(self, title: str, draw: Callable[[], T], instead: T) -> T:
        """Return what is drawn; what fails is noted, and the audit goes on."""
        try:
            with foreign(title, "drawn"):
                return draw()
        except StoreError:
            raise
        except Exception as error:
            self._fail(f"{self.name}, {title}", error)
            return instead

    def _observe(self) -> None:
        """Put together what was observed, and note what is lost."""
        for observation in self.plan.order:
            where, key = f"{self.name}, {observation.title}", observation.key()
            if observation == CLEAN:
                continue
            if reason := self._missing(observation):
                self._reasons[key] = reason
                continue
            error = self.lost.get(key)
            try:
                if error is None:
                    with foreign(observation.title, "run"):
                        self.session.observe(observation)
            except StoreError:
                raise
            except Exception as raised:
                error = ItemError.of(raised)
            if error is not None and error.not_certified:
                self._reasons[key] = {"not_certified": error.reason}
                self.session.refusals[key] = error.reason
            elif error is not None:
                self._reasons[key] = {"error": self._note(where, error), "error_code": error.code}
                self._serve_others(observation)
        # What depends on others was put together after them: pictures and records keep the order of the plan
        order = (CLEAN, *self.plan.order, *self._further)
        self.session.costs = {o: self.session.costs[o] for o in order if o in self.session.costs}

    def _fit(self, reader: str, part: P) -> Fitted[P]:
        """Return a measure or a check, called so, without what of its lists could not be observed."""

        def misfit(part: P) -> str:
            if reason := self._missing(part):
                return next(iter(reason.values()))
            try:
                for observation in part.prerequisites():  # of all entries that fit together, not those of the plan
                    if observation.key() not in {known.key() for known in self.session.costs}:
                        self._observe_also(observation, reader)
            except StoreError:
                raise
            except Exception as error:
                return ItemError.of(error).reason
            return ""

        whole = Fitted(part, dict(part.misfits) if isinstance(part, Measure) else {})
        self._note_left_out(reader, whole.left_out)
        if self._missing(part) is None or (rest := drop_misfits(part, misfit)) is None:
            return whole
        return dataclasses.replace(rest, left_out=whole.left_out | rest.left_out)

    def _observe_also(self, observation: Observation, *readers: str) -> None:
        """Observe what is not in the plan."""
        with foreign(observation.title, "run"):
            self.session.observe(observation)
        self._further[observation] = readers

    def _serve_others(self, observation: Observation) -> None:
        """Observe what failed again for those readers alone for whose own questions it does not fail."""
        readers = {**self.plan.measures_by_name, **{f"check {name}": c for name, c in self.plan.checks_by_name.items()}}
        asked = {
            name: own
            for name, part in readers.items()
            for own in part.prerequisites()
            if own.key() == observation.key()
        }
        if (rest := questions_that_fit(asked.values(), self._runs)) is not None:
            self._observe_also(rest[0], *(name for name, own in asked.items() if own in rest[1]))
            self._served |= rest[1]

    def _runs(self, observation: Observation) -> bool:
        """Return whether an observation can be made of the first images."""
        first = self.session.shard_files(observation)[0]
        try:
            with foreign(observation.title, "run"):
                self.session.run(observation, first.start, first.stop)
        except StoreError:
            raise
        except Exception:
            return False
        return True

    def _note_left_out(self, reader: str, left_out: Mapping[str, str]) -> None:
        """Note what was left out and is no observation, of which that is noted."""
        self._failures += [f"{self.name}, {reader}: left out {entry}: {why}" for entry, why in left_out.items()]

    def _missing(self, part: Observation | Measure | Check) -> dict[str, str] | None:
        """Return why an observation that a part reads could not be made; None where all were made, or can be spared."""
        spared = {observation.key() for observation in part.optional} if isinstance(part, Measure) else set()
        for observation in part.prerequisites():
            reason = None if observation in self._served else self._reasons.get(observation.key())
            if reason and not (observation.key() in spared and "not_certified" in reason):
                return reason
        return None

    def _readers(self) -> list[tuple[Observation, tuple[str, ...]]]:
        known = {**self.plan.observations, **self._further}
        return [(o, readers) for o, readers in known.items() if o in self.session.costs]

    def _measure(self, name: str, measure: Measure, path: str) -> MeasureEntry:
        self.listener.stage(f"scoring {name}")
        began, each = time.perf_counter(), self._fitted[name]
        alone, called = passes_alone(measure, self.session), self.plan.titles[name]
        if reason := self._missing(each.part):
            return entries.measure_entry(each.part, called, alone, **reason)

        # Table of what was observed, a row for each image; scores from it
        self.session.rely_on(self._find_shared() if self.plan.shared_searches else each.part.prerequisites())
        try:
            each, scored = self._fit_scores(name, each)
            scores = {
                key: self._attach_checks(measure, key, each.annotate_score(key, s)) for key, s in scored.scores.items()
            }
            self.store.write_table(path, scored.rows, scored.table)
        except StoreError:
            raise
        except Exception as error:
            return self._failure_entry(each.part, name, called, alone, error)
        self._fitted[name], measure = each, each.part
        table = rows_of_pictures(measure, scored.table, self._first)

        # Charts, and what the record says of it
        headline = list(scores)[-1]
        charts = self._draw(
            f"charts of {name}",
            lambda: [entries.chart_entry(chart, table, scores) for chart in measure.charts(table, scores)],
            [],
        )
        try:
            words = measure.in_words(table, scores)
            entry = entries.measure_entry(
                measure, called, alone, left_out=dict(each.left_out), scores=scores, headline=headline, charts=charts,
                column=measure.column, table=path,
                in_words=None if words is None else msgspec.convert(asdict(words), InWordsEntry),
                seconds=round(time.perf_counter() - began, 3),
            )  # fmt: skip
        except Exception as error:
            return self._failure_entry(each.part, name, called, alone, error)
        self._scored[name] = path, scores[headline]
        return entry

    def _fit_scores(self, name: str, each: Fitted[Measure]) -> tuple[Fitted[Measure], Scored]:
        """Return what a measure makes of what was observed, without what of its lists nothing can be made of."""
        try:
            return each, self._scores(name, each.part)
        except StoreError:
            raise
        except Exception:
            if (rest := drop_misfits(each.part, lambda part: self._find_score_error(name, part))) is None:
                raise
        self._note_left_out(name, rest.left_out)
        left_out = each.left_out | rest.left_out
        return Fitted(rest.part, left_out, (*each.kept, *rest.kept)), self._scores(name, rest.part)

    def _find_score_error(self, name: str, measure: Measure) -> str:
        """Return why nothing can be made of what was observed; "" where something can."""
        try:
            self._scores(name, measure)
        except StoreError:
            raise
        except Exception as error:
            return ItemError.of(error).reason
        return ""

    @cached_property
    def _first(self) -> Int[Tensor, "images"] | None:
        """The first image that shows the picture of each, see `firsts`."""
        return first_of_pictures(self.session.images)

    def _scores(self, name: str, measure: Measure) -> Scored:
        """Return what a measure makes of what was observed."""
        with foreign(f"measure {name}", "run"):
            subject = readable_by(measure, self.session)
            table = measure.observe(subject)
            scores = score_pictures(measure, table, self._first)
            if self.session.encoder.draws is not None:
                scores = with_draws(measure, subject, scores, self._first)
            rows = measure.rows(table) or self.session.images.ids[: len(next(iter(table.values())))]
        return Scored(table, scores, rows)

    def _find_shared(self) -> list[Observation]:
        """Return the observations of all measures: what they met counts for each. Checks look at few images."""
        if not self.plan.shared_searches:
            return []
        measures = set(self.plan.measures_by_name)
        return [observation for observation, readers in self._readers() if measures & set(readers)]

    def _attach_checks(self, measure: Measure, name: str, score: Score) -> Score:
        """Return a score with the checks that it depends on."""
        searches = measure.relies_on(name)
        checks = (key for key, check in self.plan.checks_by_name.items() if check.concerns(searches))
        every = ", at every round" if self.plan.round is not None and self.plan.round.look else ""
        return dataclasses.replace(
            score, checks=tuple(checks), interval=f"{score.interval}{every}", if_weak=measure.if_weak(name)
        )

    def _extremes(self) -> Extremes:
        """Return the least and the most robust images by the first measure that shows them."""
        for name, fit in self._fitted.items():
            if fit.part.shown_by and name in self._scored:
                table = self.store.read_table(self._scored[name][0])
                return write_extremes(fit.part, name, table, album(self.store, self.session, self.slug))
        return Extremes()

    def _check(self, name: str, fit: Fitted[Check]) -> CheckEntry:
        self.listener.stage(f"checking {name}")
        encoder, before = self.session.encoder, self.session.encoder.passes
        with self.session.follow_passes():
            entry = self._judge(name, fit)
        # What it made of its own may be less than was predicted, or nothing where its verdict was kept
        own = fit.part.own_passes(self.session.population, self.session.attacked).of_draws(encoder.draws)
        self.listener.advance(own.work - (encoder.passes - before).work)
        return entry

    def _judge(self, name: str, fit: Fitted[Check]) -> CheckEntry:
        called = title(fit.part, name)
        if reason := self._missing(fit.part):
            return _skip(fit.part, called, next(iter(reason.values())))
        before = self.session.encoder.passes
        try:
            with foreign(f"check {name}", "run"):
                entry = verdict_of(fit.part, self.session, self.store)
                entry = replace(entry, title=called, doubt=entry.doubt or fit.part.doubt or called.lower())
                return replace(entry, finding=fit.annotate(entry.finding))
        except StoreError:
            raise
        except Exception as error:
            spent = entries.passes_entry(self.session.encoder.passes - before)
            return replace(_skip(fit.part, called, self._fail(f"{self.name}, check {name}", error)), passes=spent)

    def _failure_entry(self, measure: Measure, name: str, called: str, alone: Passes, error: Exception) -> MeasureEntry:
        # In the log with its traceback, in the record with its kind
        raised = ItemError.of(error)
        reason = self._note(f"{self.name}, {name}", raised)
        return entries.failure_entry(measure, name, called, alone, reason, raised.code)

    def _fail(self, where: str, error: Exception) -> str:
        return self._note(where, ItemError.of(error))

    def _note(self, where: str, error: ItemError) -> str:
        """Note a failure, and return its reason."""
        self._failures.append(at(where, error))
        self._log += format_log(where, error)
        return error.reason


def _skip(check: Check, called: str, reason: str) -> CheckEntry:
    """Return the entry of a check that could not be made."""
    return CheckEntry(
        title=called, status="skip", finding=f"not examined: {reason}", meaning="This check could not be made.",
        consequence=check.consequence, details={},
    )  # fmt: skip


def _charts_of(session: Session, observation: Observation) -> list[AnyChart]:
    """Return the charts of an observation; of what stays in files, none."""
    if observation.scope.training or observation.in_files:
        return []
    clean = session.read(CLEAN)["reps"]
    return [entries.chart_entry(chart) for chart in observation.charts(session.read(observation), clean)]


def verdict_of(check: Check, session: Session, store: Store) -> CheckEntry:
    """Return the verdict of a check and its own passes; one that made passes is kept, and read by later rounds."""
    file = _verdict_file(check, session)
    kept: Any = store.read_json(file) if check.lasts else None
    if unbroken(kept):
        return _check_entry(check, kept["verdict"])
    before = session.encoder.passes
    judged = asdict(check.judge(readable_by(check, session)))
    passes = session.encoder.passes - before
    verdict = public(as_json({**judged, "passes": entries.passes_entry(passes)}))
    if check.lasts and passes.total:
        store.write_json(file, add_seal({"verdict": verdict}))
    return _check_entry(check, verdict)


def _check_entry(check: Check, verdict: Mapping[str, Any]) -> CheckEntry:
    """Return the entry of a check in the record."""
    return read_json({"title": check.title, "consequence": check.consequence, **verdict}, CheckEntry)


def _verdict_file(check: Check, session: Session) -> str:
    """Return the file of a verdict; its name says all that decides it."""
    extents = [session.split.extent(observation) for observation in check.prerequisites()]
    return f"cache/checks/{digest([session.decisive, registry.spec(check), extents])}.json"


class Copied:
    """A subject that gives copies of what was observed; everything else is the subject's own.

    Args:
        subject: who was observed.
    """

    def __init__(self, subject: Subject):
        self._subject = subject

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subject, name)

    def batch(self, start: int, stop: int) -> Images:
        """Return some images of the population."""
        return self._subject.batch(start, stop).clone()

    def read(self, observation: Observation) -> dict[str, Tensor]:
        """Return what the observation saw."""
        return {key: value.clone() for key, value in self._subject.read(observation).items()}

    def bank(self, threat: Threat | None = None) -> Bank:
        """Return the representations of the training images."""
        bank = self._subject.bank(threat)
        return Bank(bank.labels.clone(), lambda: (chunk.clone() for chunk in bank.chunks()))


def readable_by(part: object, subject: Any) -> Any:
    """Return the subject as a measure or a check may read it: Holdfast's own leave it as it is."""
    is_own = type(part).__module__.partition(".")[0] == __name__.partition(".")[0]
    return subject if is_own else Copied(subject)


RANGES = {"share": (0.0, 1.0), "similarity": (-1.0, 1.0), "pixels": (0.0, math.inf)}
"""The least and the most that scores can be, by their unit."""


class _GivenDraws(Exception):
    """A measure reads what was observed by the encoder's own draws alone."""


class Redrawn:
    """A subject as another group of draws sees it.

    Args:
        subject: who was observed.
        group: which draws, from 1.
    """

    def __init__(self, subject: Any, group: int):
        self._subject, self._prefix = subject, redrawn("", group)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._subject, name)
        return _refuse if callable(value) else value

    def read(self, observation: Observation) -> dict[str, Tensor]:
        """Return what the observation saw, with the representations of this group in place of the encoder's own."""
        results = self._subject.read(observation)
        again = {key.removeprefix(self._prefix): v for key, v in results.items() if key.startswith(self._prefix)}
        if not again:
            raise _GivenDraws
        return {**results, **again}


def _refuse(*_: object, **__: object) -> Any:
    raise _GivenDraws


def with_draws(
    measure: Measure, subject: Any, scores: Mapping[str, Score], first: Int[Tensor, "images"] | None = None
) -> dict[str, Score]:
    """Return scores of a mean over draws with intervals that know of other draws, or that say that they do not.

    Args:
        measure: the measure.
        subject: who was observed, as the measure reads it.
        scores: by the encoder's own draws.
        first: the first image that shows the picture of each; None where none is a copy.
    """
    try:
        groups: list[Any] = [Redrawn(subject, group) for group in range(1, GROUPS + 1)]
        again = [score_pictures(measure, measure.observe(group), first) for group in groups]
    except _GivenDraws:
        return {
            name: dataclasses.replace(score, interval=f"{score.interval}, given its draws")
            for name, score in scores.items()
        }
    return {
        name: widen_interval(
            score, [_number(group.get(name)) for group in again], *RANGES.get(score.unit or measure.unit, ())
        )
        for name, score in scores.items()
    }


def _number(score: Score | None) -> float:
    return math.nan if score is None or score.value is None else score.value


Readers = list[tuple[Observation, tuple[str, ...]]]
"""What was observed, and the names of the measures and checks that it serves."""


def observation_entry(session: Session, observation: Observation, readers: tuple[str, ...]) -> ObservationEntry:
    """Return what the record says of an observation."""
    cost, files = session.costs[observation], session.shard_files(observation)
    return ObservationEntry(
        part=registry.spec(observation),
        title=observation.title,
        passes=entries.passes_entry(cost.passes),
        predicted=entries.passes_entry(cost.predicted),
        serves=list(readers),
        seconds=round(cost.seconds, 3),
        shards=files[0].file.rpartition("/")[0] if files else "",
    )


def cost_entry(session: Session, plan: Plan, observed: Readers) -> Spent:
    """Return what the measures' observations cost, what they would have cost alone, and what the checks add."""
    measures = set(plan.measures_by_name)
    spent = sum((cost.passes for cost in session.costs.values()), Passes())
    useful = sum((session.costs[o].passes for o, readers in observed if measures & set(readers)), Passes())
    alone = sum((passes_alone(m, session) for m in plan.measures), Passes())
    predicted = plan.predict(session.population, session.split.train, session.encoder.draws)
    return Spent(
        forward=spent.forward,
        backward=spent.backward,
        bounds=spent.bounds,
        predicted=entries.passes_entry(predicted),
        measures=entries.passes_entry(useful),
        alone=entries.passes_entry(alone),
        shared_fraction=round(1 - useful.total / alone.total, 4) if alone.total else 0.0,
    )


def passes_alone(measure: Measure, session: Session) -> Passes:
    """Return what a measure would cost if it shared nothing with others."""
    encoder = session.encoder
    return total_passes(merge([("", measure.prerequisites())]), session.split, encoder.precision, encoder.draws)
