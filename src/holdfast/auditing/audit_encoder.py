"""The audit of one encoder: its observations, its scores, its checks, its entry in the record."""

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from holdfast.auditing import record as entries
from holdfast.auditing.artifacts.attention import write_attention
from holdfast.auditing.artifacts.pictures import album, shown, write_extremes
from holdfast.auditing.copied import readable_by
from holdfast.auditing.plan import Plan, merge, total_passes
from holdfast.auditing.redrawn import with_draws
from holdfast.auditing.representations import CLEAN
from holdfast.auditing.session import Session
from holdfast.auditing.verdicts import verdict_of
from holdfast.core import Check, HoldfastError, Measure, Observation, Passes, Score, registry
from holdfast.core.chart import chart_data
from holdfast.core.naming import title
from holdfast.numerics.statistics.looks import looking
from holdfast.runtime.errors import NotCertified, first_line
from holdfast.runtime.foreign import foreign
from holdfast.runtime.listener import Listener
from holdfast.storage.run_folder import Store, StoreError
from holdfast.storage.standing import settle


@dataclass(frozen=True)
class ItemError:
    """Why a work item could not be done; can be sent to other processes.

    Attributes:
        reason: in one sentence.
        trace: the traceback of what should not have failed.
        not_certified: whether it is that nothing can be proved, which is no fault.
        shard: the number of the shard that was to be made.
    """

    reason: str
    trace: str = ""
    not_certified: bool = False
    shard: int = 0

    @classmethod
    def of(cls, error: Exception, shard: int = 0) -> "ItemError":
        """Return an error in one sentence; of what is not a plain request that fails, keep the traceback."""
        if isinstance(error, HoldfastError):
            return cls(str(error), "", isinstance(error, NotCertified), shard)
        trace = "".join(traceback.format_exception(error))
        return cls(f"{type(error).__name__}: {first_line(error)}", trace, False, shard)


@dataclass(frozen=True)
class EncoderResult:
    """What came out of an encoder's audit.

    Attributes:
        entry: its entry in the record.
        failures: one sentence for everything that failed.
        log: tracebacks of what should not have failed.
        scored: the file of the table and the headline score of each measure that succeeded, for the comparison.
        resumed: how many shards an earlier run had stored.
        remade: how many of them were of no use, and were made again.
    """

    entry: dict[str, Any]
    failures: list[str] = field(default_factory=list)
    log: str = ""
    scored: dict[str, tuple[str, Score]] = field(default_factory=dict)
    resumed: int = 0
    remade: int = 0


def unopened(name: str, slug: str, error: ItemError) -> EncoderResult:
    """Return the result of an encoder that could not be opened, or died with its worker."""
    result = EncoderResult(_blank(name, slug) | {"error": error.reason})
    return replace(result, failures=[_at(name, error)], log=_logged(name, error))


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
        self._log = ""

    def run(self) -> EncoderResult:
        """Return the encoder's entry in the record, and what stands beside it."""
        entry = self._entry()
        return EncoderResult(entry, self._failures, self._log, self._scored, remade=self.session.remade)

    def _entry(self) -> dict[str, Any]:
        images = self.session.images
        entry = _blank(self.name, self.slug) | entries.encoder_entry(self.session.encoder, self.slug, images.geometry)
        entry |= {"name": self.name, "input": list(images.shape), "batch_size": self.session.batch_size}
        entry |= {"identity": self.session.identity, "rendering": images.rendering}

        # Put together what was observed; without clean representations nothing can be scored
        try:
            if (error := self.lost.get(CLEAN.key())) is None:
                self.session.observe(CLEAN)
        except StoreError:
            raise
        except Exception as raised:
            error = ItemError.of(raised)
        if error is not None:
            return entry | {"error": self._note(self.name, error)}
        entry["dim"] = self.session.read(CLEAN)["reps"].shape[1]
        self._observe()
        entry["observations"] = [self._observation(o, readers) for o, readers in self._readers()]
        entry["passes"] = self._passes()

        # Score the measures, examine the searches that they rely on, and say what is left of each number
        measures, look = self.plan.named_measures, 0 if self.plan.round is None else self.plan.round.look
        for (name, measure), file in zip(measures.items(), entries.slugs(list(measures)), strict=True):
            with looking(look):  # intervals that may end the audit hold at every round
                entry["measures"][name] = self._measure(name, measure, f"tables/{self.slug}/{file}.parquet")
        self.session.rely_on(self._shared())
        for name, check in self.plan.named_checks.items():
            entry["checks"][name] = self._check(name, check)
        entry = settle(entry, self.plan.allow)
        self._scored = {name: (file, self._settled(entry, name)) for name, (file, _) in self._scored.items()}

        # Draw
        readers = dict(self._readers())
        for observation_entry, observation in zip(entry["observations"], readers, strict=True):
            if observation.key() not in self._reasons:
                self._draw(
                    "charts",
                    lambda e=observation_entry, o=observation: e.update(charts=_charts_of(self.session, o)),
                )
        self._draw("pictures", lambda: entry.update(extremes=self._extremes()))
        for observation, number in shown(self.session):
            self._draw(
                f"pictures of {observation.title}",
                lambda o=observation, n=number: entry[o.shows].extend(self._pictures(o, n, readers[o])),
            )
        self._draw(
            "attention maps",
            lambda: entry.update(attention=write_attention(self.store, self.session, self.slug, self.plan.measures)),
        )
        return entry

    def _pictures(self, observation: Observation, number: int, readers: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return what the record says of an observation's pictures."""
        leaves = album(self.store, self.session, self.slug, number, readers)
        return observation.pictures(self.session.read(observation), leaves)

    def _draw(self, title: str, draw: Callable[[], None]) -> None:
        """Draw something; what fails is noted, and the audit goes on."""
        try:
            with foreign(title, "drawn"):
                draw()
        except StoreError:
            raise
        except Exception as error:
            self._fail(f"{self.name}, {title}", error)

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
                self._reasons[key] = {"error": self._note(where, error)}
        # What depends on others was put together after them: pictures and records keep the order of the plan
        self.session.costs = {o: self.session.costs[o] for o in (CLEAN, *self.plan.order) if o in self.session.costs}

    def _missing(self, part: Observation | Measure | Check) -> dict[str, str] | None:
        """Return why an observation that a part reads could not be made; None where all were made, or can be spared."""
        spared = {observation.key() for observation in part.optional} if isinstance(part, Measure) else set()
        for observation in part.prerequisites():
            reason = self._reasons.get(key := observation.key())
            if reason and not (key in spared and "not_certified" in reason):
                return reason
        return None

    def _readers(self) -> list[tuple[Observation, tuple[str, ...]]]:
        return [(o, readers) for o, readers in self.plan.observations.items() if o in self.session.costs]

    def _observation(self, observation: Observation, readers: tuple[str, ...]) -> dict[str, Any]:
        cost, files = self.session.costs[observation], self.session.shard_files(observation)
        return {
            "part": registry.spec(observation),
            "title": observation.title,
            "passes": entries.passes_entry(cost.passes),
            "predicted": entries.passes_entry(cost.predicted),
            "serves": list(readers),
            "seconds": round(cost.seconds, 3),
            "shards": files[0].file.rpartition("/")[0] if files else "",
        }

    def _passes(self) -> dict[str, Any]:
        """Return what the measures' observations cost, what they would have cost alone, and what the checks add."""
        run = list(self.session.costs.values())
        measures = set(self.plan.named_measures)
        shared = [self.session.costs[o] for o, readers in self._readers() if measures & set(readers)]
        spent = sum((cost.passes for cost in run), Passes())
        useful = sum((cost.passes for cost in shared), Passes())
        alone = sum((_alone(m, self.session) for m in self.plan.measures), Passes())
        return {
            **entries.passes_entry(spent),
            "predicted": entries.passes_entry(self._predicted()),
            "measures": entries.passes_entry(useful),
            "alone": entries.passes_entry(alone),
            "shared_fraction": round(1 - useful.total / alone.total, 4) if alone.total else 0.0,
        }

    def _predicted(self) -> Passes:
        session = self.session
        return self.plan.predict(session.population, session.split.train, session.encoder.draws)

    def _measure(self, name: str, measure: Measure, path: str) -> dict[str, Any]:
        self.listener.stage(f"scoring {name}")
        entry: dict[str, Any] = {
            "part": registry.spec(measure),
            "title": title(measure, name),
            "family": registry.about_folder(type(measure)),
            "question": measure.question,
            "how_to_read": measure.how_to_read,
            "better": measure.better,
            "unit": measure.unit,
            "reference": measure.reference,
            "needs_labels": measure.needs_labels,
            "corruptions": list(measure.corruptions),
            "in_words": None,
            "in_brief": measure.in_brief,
            "passes_alone": entries.passes_entry(_alone(measure, self.session)),
            "scores": {},
            "charts": [],
            "headline": None,
            "column": None,
            "table": None,
            "seconds": 0.0,
            "error": None,
            "not_certified": None,
        }
        began = time.perf_counter()
        if reason := self._missing(measure):
            return entry | reason

        # Table of what was observed, a row for each image; scores from it
        self.session.rely_on(self._shared() if self.plan.shared_searches else measure.prerequisites())
        try:
            with foreign(f"measure {name}", "run"):
                subject = readable_by(measure, self.session)
                table = measure.observe(subject)
                scores = measure.score(table)
                if self.session.encoder.draws is not None:
                    scores = with_draws(measure, subject, scores)
                scores = {key: self._checked(measure, key, score) for key, score in scores.items()}
                rows = measure.rows(table) or self.session.images.ids[: len(next(iter(table.values())))]
            self.store.write_table(path, rows, table)
        except StoreError:
            raise
        except Exception as error:
            return entry | {"error": self._fail(f"{self.name}, {name}", error)}

        # Charts, and what the record says of it
        headline = list(scores)[-1]
        self._draw(
            f"charts of {name}",
            lambda: entry.update(charts=[chart_data(c, table, scores) for c in measure.charts(table, scores)]),
        )
        self._scored[name] = path, scores[headline]
        entry["scores"] = {key: asdict(score) | {"if_weak": measure.if_weak(key)} for key, score in scores.items()}
        entry |= {"headline": headline, "column": measure.column, "table": path}
        words = measure.in_words(table, scores)
        entry["in_words"] = None if words is None else asdict(words)
        return entry | {"seconds": round(time.perf_counter() - began, 3)}

    def _shared(self) -> list[Observation]:
        """Return the observations of all measures: what they met counts for each. Checks look at few images."""
        if not self.plan.shared_searches:
            return []
        measures = set(self.plan.named_measures)
        return [observation for observation, readers in self._readers() if measures & set(readers)]

    def _checked(self, measure: Measure, name: str, score: Score) -> Score:
        """Return a score with the checks that it depends on."""
        searches = measure.relies_on(name)
        checks = (key for key, check in self.plan.named_checks.items() if check.concerns(searches))
        every = ", at every round" if self.plan.round is not None and self.plan.round.look else ""
        return replace(score, checks=tuple(checks), interval=f"{score.interval}{every}")

    def _settled(self, entry: Mapping[str, Any], name: str) -> Score:
        """Return the headline of a measure with its standing."""
        m = entry["measures"][name]
        settled = m["scores"][m["headline"]]
        return replace(self._scored[name][1], standing=settled["standing"], because=tuple(settled["because"]))

    def _extremes(self) -> dict[str, Any]:
        """Return the least and the most robust images by the first measure that shows them."""
        for name, measure in self.plan.named_measures.items():
            if measure.shown_by and name in self._scored:
                table = self.store.read_table(self._scored[name][0])
                return {"measure": name, **write_extremes(measure, table, album(self.store, self.session, self.slug))}
        return {}

    def _check(self, name: str, check: Check) -> dict[str, Any]:
        self.listener.stage(f"checking {name}")
        entry = {"title": title(check, name), "consequence": check.consequence}
        if reason := self._missing(check):
            return entry | _skipped(next(iter(reason.values())))
        before = self.session.encoder.passes
        try:
            with foreign(f"check {name}", "run"):
                return entry | verdict_of(check, self.session, self.store)
        except StoreError:
            raise
        except Exception as error:
            spent = entries.passes_entry(self.session.encoder.passes - before)
            return entry | _skipped(self._fail(f"{self.name}, check {name}", error)) | {"passes": spent}

    def _fail(self, where: str, error: Exception) -> str:
        return self._note(where, ItemError.of(error))

    def _note(self, where: str, error: ItemError) -> str:
        """Note a failure, and return its reason."""
        self._failures.append(_at(where, error))
        self._log += _logged(where, error)
        return error.reason


def _at(where: str, error: ItemError) -> str:
    """Return a failure in one sentence that begins with where it was."""
    return error.reason if error.reason.startswith(where) else f"{where}: {error.reason}"


def _logged(where: str, error: ItemError) -> str:
    return f"--- {where}\n{error.trace}\n" if error.trace else ""


def _blank(name: str, slug: str) -> dict[str, Any]:
    """Return an encoder's entry in the record without any answer."""
    named = {"name": name, "slug": slug, "error": None}
    tables: dict[str, Any] = {key: {} for key in ("measures", "checks", "extremes", "attention")}
    shows = ("gallery", "changes", "impersonations", "noises", "perturbations")
    return named | tables | {key: [] for key in ("observations", *shows)}


def _skipped(reason: str) -> dict[str, Any]:
    return {
        "status": "skip",
        "finding": f"not examined: {reason}",
        "meaning": "This check could not be made.",
        "details": {},
    }


def _alone(measure: Measure, session: Session) -> Passes:
    """Return what a measure would cost if it shared nothing with others."""
    encoder = session.encoder
    return total_passes(merge([("", measure.prerequisites())]), session.split, encoder.precision, encoder.draws)


def _charts_of(session: Session, observation: Observation) -> list[dict[str, Any]]:
    """Return the charts of an observation as JSON data; of what stays in files, none."""
    if observation.scope.training or observation.in_files:
        return []
    clean = session.read(CLEAN)["reps"]
    return [chart_data(chart) for chart in observation.charts(session.read(observation), clean)]
