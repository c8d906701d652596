"""The audit of one encoder: its observations, its scores, its checks, its entry in the record."""

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from holdfast.auditing import record as entries
from holdfast.auditing.artifacts.attention import write_attention
from holdfast.auditing.artifacts.pictures import album, shown, write_extremes
from holdfast.auditing.copied import readable_by
from holdfast.auditing.images import AuditImages
from holdfast.auditing.plan import Plan, batch_size_for, merge, total_passes
from holdfast.auditing.representations import CLEAN
from holdfast.auditing.session import Session
from holdfast.core import Check, Encoder, HoldfastError, Measure, Observation, Passes, Scope, Score, Table, registry
from holdfast.core.chart import chart_data
from holdfast.core.naming import title
from holdfast.runtime.errors import NotCertified, first_line
from holdfast.runtime.foreign import foreign
from holdfast.runtime.listener import Listener
from holdfast.sources.encoders import open_encoder
from holdfast.storage.run_folder import OtherEncoder, Store, StoreError
from holdfast.storage.standing import settle


class EncoderAudit:
    """Audits one encoder of a plan.

    Attributes:
        failures: one sentence for everything that failed.
        scored: tables and headline scores of the measures that succeeded, for the comparison.
        resumed: how many shards an earlier run had stored.
        remade: how many of them were of no use, and were made again.
        log: tracebacks of what should not have failed.
    """

    def __init__(self, plan: Plan, name: str, slug: str, store: Store, listener: Listener, recorded: str | None = None):
        self._plan, self._name, self._slug, self._store, self._listener = plan, name, slug, store, listener
        self._recorded = recorded
        self._reasons: dict[Observation, dict[str, str]] = {}
        self.failures: list[str] = []
        self.scored: dict[str, tuple[Table, Score]] = {}
        self.resumed, self.remade, self.log = 0, 0, ""

    def run(
        self, encoder: Encoder | str, images: AuditImages, lost: Mapping[Observation | None, str] | None = None
    ) -> dict[str, Any]:
        """Return the encoder's entry in the record.

        Args:
            encoder: the encoder, or its spec.
            images: the images.
            lost: keys of observations that could not be made, and why; they are not tried again. None: the encoder
                itself, which is not opened. Given by who has opened the encoder before, and forgotten stale shards.
        """
        tested, train = images.tested, images.train
        self._listener.begin(self._name, self._plan.predict(len(tested), len(train) if train else None).work)
        entry: dict[str, Any] = {"name": self._name, "slug": self._slug, "error": None}
        entry |= {"measures": {}, "checks": {}, "observations": [], "gallery": [], "extremes": {}}
        entry |= {"impersonations": [], "noises": [], "attention": {}}
        try:
            if (why := (lost or {}).get(None)) is not None:
                raise HoldfastError(why)
            with foreign(f"encoder {self._name!r}", "opened"):
                subject = self.open(encoder, images)
            entry |= entries.encoder_entry(subject.encoder, self._slug) | {"name": self._name}
            entry |= {"input": list(subject.images.shape), "batch_size": subject.batch_size}
            entry["identity"] = subject.identity
            if lost is None:
                self.remade += self.forget_stale(subject)
            if (why := (lost or {}).get(CLEAN.key())) is not None:
                raise HoldfastError(why)
            subject.observe(CLEAN)
            entry["dim"] = subject.read(CLEAN)["reps"].shape[1]
        except StoreError:
            raise
        except Exception as error:
            entry["error"] = self._fail(self._name, error)
            return entry
        self._observe(subject, lost or {})
        entry["observations"] = [self._observation(subject, o, readers) for o, readers in self._readers(subject)]
        entry["passes"] = self._passes(subject)
        measures = self._plan.named_measures
        for (name, measure), file in zip(measures.items(), entries.slugs(list(measures)), strict=True):
            entry["measures"][name] = self._measure(name, measure, subject, f"tables/{self._slug}/{file}.parquet")
        subject.rely_on(self._shared(subject))
        for name, check in self._plan.named_checks.items():
            entry["checks"][name] = self._check(name, check, subject)
        entry = settle(entry, self._plan.allow)
        self.scored = {name: (table, self._settled(entry, name)) for name, (table, _) in self.scored.items()}
        readers = dict(self._readers(subject))
        for seen, observation in zip(entry["observations"], readers, strict=True):
            if observation.key() not in self._reasons and not observation.scope.training:
                self._draw("charts", lambda s=seen, o=observation: s.update(charts=_charts_of(subject, o)))
        self._draw("pictures", lambda: entry.update(extremes=self._extremes(subject)))
        for observation, number in shown(subject):
            self._draw(
                f"pictures of {observation.title}",
                lambda o=observation, n=number: entry[o.shows].extend(self._pictures(subject, o, n, readers[o])),
            )
        self._draw(
            "attention maps",
            lambda: entry.update(attention=write_attention(self._store, subject, self._slug, self._plan.measures)),
        )
        self.resumed = sum(cost.stored for cost in subject.costs.values())
        self.remade += sum(cost.remade for cost in subject.costs.values())
        return entry

    def _pictures(
        self, subject: Session, observation: Observation, number: int, readers: tuple[str, ...]
    ) -> list[dict[str, Any]]:
        """Return what the record says of an observation's pictures."""
        leaves = album(self._store, subject, self._slug, number, readers)
        return observation.pictures(subject.read(observation), leaves)

    def _draw(self, what: str, draw: Callable[[], None]) -> None:
        """Draw something; what fails is noted, and the audit goes on."""
        try:
            with foreign(what, "drawn"):
                draw()
        except StoreError:
            raise
        except Exception as error:
            self._fail(f"{self._name}, {what}", error)

    def open(self, encoder: Encoder | str, images: AuditImages) -> Session:
        """Return an encoder, or that of a spec, ready to be observed on these images.

        Raises:
            HoldfastError: an encoder that cannot be opened, or that the images do not fit.
            OtherEncoder: the folder holds the record of another one of its name.
        """
        self._listener.stage("opening the encoder")
        encoder = (open_encoder(encoder) if isinstance(encoder, str) else encoder).to(self._plan.device)
        encoder.prepare(precision=self._plan.precision, compiled=self._plan.compiled)
        tested, train = images.tested.with_geometry(encoder.geometry), images.train
        subject = Session(
            encoder,
            tested,
            attacked=self._plan.attacked_of(len(tested)),
            seed=self._plan.seed,
            batch_size=self._plan.batch_size or batch_size_for(tested.shape, self._plan.device),
            device=self._plan.device,
            store=self._store,
            progress=self._listener.advance,
            train=None if train is None else train.with_geometry(encoder.geometry),
        )
        if self._recorded not in (None, subject.identity):
            raise OtherEncoder(self._name)
        return subject

    def forget_stale(self, subject: Session) -> int:
        """Delete what other code of the encoder has stored, and return how many shards that were.

        Raises:
            OtherEncoder: the folder holds the record of what that code found.
        """
        if not subject.stale():
            return 0
        if self._recorded is not None:
            raise OtherEncoder(self._name)
        return subject.forget(self._plan.observations)

    def _observe(self, subject: Session, lost: Mapping[Observation | None, str]) -> None:
        for observation in self._plan.observations:
            if observation == CLEAN:
                continue
            self._listener.stage(observation.title)
            if reason := self._missing(observation):
                self._reasons[observation.key()] = reason
                continue
            if (why := lost.get(observation.key())) is not None:
                reason = self._fail(f"{self._name}, {observation.title}", HoldfastError(why))
                self._reasons[observation.key()] = {"error": reason}
                continue
            try:
                with foreign(observation.title, "run"):
                    subject.observe(observation)
            except StoreError:
                raise
            except NotCertified as error:
                self._reasons[observation.key()] = {"not_certified": str(error)}
            except Exception as error:
                self._reasons[observation.key()] = {"error": self._fail(f"{self._name}, {observation.title}", error)}

    def _missing(self, observation: Observation) -> dict[str, str] | None:
        """Return why an observation that this one reads could not be made; None where all were made."""
        reasons = (self._reasons.get(other.key()) for other in observation.prerequisites())
        return next(filter(None, reasons), None)

    def _readers(self, subject: Session) -> list[tuple[Observation, tuple[str, ...]]]:
        return [(o, readers) for o, readers in self._plan.observations.items() if o in subject.costs]

    def _observation(self, subject: Session, observation: Observation, readers: tuple[str, ...]) -> dict[str, Any]:
        cost = subject.costs[observation]
        return {
            "part": registry.spec(observation),
            "title": observation.title,
            "passes": entries.passes_entry(cost.passes),
            "predicted": entries.passes_entry(cost.predicted),
            "serves": list(readers),
            "seconds": round(cost.seconds, 3),
        }

    def _passes(self, subject: Session) -> dict[str, Any]:
        """Return what the measures' observations cost, what they would have cost alone, and what the checks add."""
        run = list(subject.costs.values())
        measures = set(self._plan.named_measures)
        shared = [subject.costs[o] for o, readers in self._readers(subject) if measures & set(readers)]
        spent = sum((cost.passes for cost in run), Passes())
        useful = sum((cost.passes for cost in shared), Passes())
        alone = sum((_alone(m, subject) for m in self._plan.measures), Passes())
        return {
            **entries.passes_entry(spent),
            "predicted": entries.passes_entry(self._plan.predict(subject.population, subject.train_size)),
            "measures": entries.passes_entry(useful),
            "alone": entries.passes_entry(alone),
            "shared_fraction": round(1 - useful.total / alone.total, 4) if alone.total else 0.0,
        }

    def _measure(self, name: str, measure: Measure, subject: Session, path: str) -> dict[str, Any]:
        self._listener.stage(f"scoring {name}")
        entry: dict[str, Any] = {
            "part": registry.spec(measure),
            "title": title(measure, name),
            "question": measure.question,
            "how_to_read": measure.how_to_read,
            "better": measure.better,
            "unit": measure.unit,
            "reference": measure.reference,
            "needs_labels": measure.needs_labels,
            "corruptions": list(measure.corruptions),
            "passes_alone": entries.passes_entry(_alone(measure, subject)),
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
        for observation in measure.prerequisites():
            if reason := self._reasons.get(observation.key()):
                return entry | reason
        subject.rely_on(self._shared(subject) if self._plan.shared_searches else measure.prerequisites())
        try:
            with foreign(f"measure {name}", "run"):
                table = measure.observe(readable_by(measure, subject))
                scores = {key: self._checked(measure, key, score) for key, score in measure.score(table).items()}
                rows = measure.rows(table) or subject.images.ids[: len(next(iter(table.values())))]
            self._store.write_table(path, rows, table)
        except StoreError:
            raise
        except Exception as error:
            return entry | {"error": self._fail(f"{self._name}, {name}", error)}
        headline = list(scores)[-1]
        self._draw(
            f"charts of {name}",
            lambda: entry.update(charts=[chart_data(c, table, scores) for c in measure.charts(table, scores)]),
        )
        self.scored[name] = table, scores[headline]
        told = {key: {"if_weak": measure.if_weak(key)} for key in scores}
        entry |= {"scores": {key: asdict(score) | told[key] for key, score in scores.items()}, "headline": headline}
        return entry | {"column": measure.column, "table": path, "seconds": round(time.perf_counter() - began, 3)}

    def _shared(self, subject: Session) -> list[Observation]:
        """Return the observations of all measures: what they met counts for each. Checks look at few images."""
        if not self._plan.shared_searches:
            return []
        measures = set(self._plan.named_measures)
        return [observation for observation, readers in self._readers(subject) if measures & set(readers)]

    def _checked(self, measure: Measure, name: str, score: Score) -> Score:
        """Return a score with the checks that it depends on."""
        searches = measure.relies_on(name)
        checks = (key for key, check in self._plan.named_checks.items() if check.concerns(searches))
        return replace(score, checks=tuple(checks))

    def _settled(self, entry: Mapping[str, Any], name: str) -> Score:
        """Return the headline of a measure with its standing."""
        m = entry["measures"][name]
        settled = m["scores"][m["headline"]]
        return replace(self.scored[name][1], standing=settled["standing"], because=tuple(settled["because"]))

    def _extremes(self, subject: Session) -> dict[str, Any]:
        """Return the least and the most robust images by the first measure that shows them."""
        for name, measure in self._plan.named_measures.items():
            if measure.shown_by and name in self.scored:
                extremes = write_extremes(measure, self.scored[name][0], album(self._store, subject, self._slug))
                return {"measure": name, **extremes}
        return {}

    def _check(self, name: str, check: Check, subject: Session) -> dict[str, Any]:
        self._listener.stage(f"checking {name}")
        for observation in check.prerequisites():
            if reason := self._reasons.get(observation.key()):
                return {
                    "title": title(check, name),
                    **_skipped(next(iter(reason.values()))),
                    "consequence": check.consequence,
                }
        before = subject.encoder.passes
        try:
            with foreign(f"check {name}", "run"):
                verdict = asdict(check.judge(readable_by(check, subject)))
        except Exception as error:
            verdict = _skipped(self._fail(f"{self._name}, check {name}", error))
        verdict |= {"consequence": check.consequence}
        return {"title": title(check, name), **verdict, "passes": entries.passes_entry(subject.encoder.passes - before)}

    def _fail(self, where: str, error: Exception) -> str:
        """Note a failure in one sentence; of what is not a plain request that fails, keep the traceback."""
        if isinstance(error, HoldfastError):
            sentence = str(error)
        else:
            sentence = f"{type(error).__name__}: {first_line(error)}"
            self.log += f"--- {where}\n{''.join(traceback.format_exception(error))}\n"
        self.failures.append(sentence if sentence.startswith(where) else f"{where}: {sentence}")
        return sentence


def _skipped(reason: str) -> dict[str, Any]:
    return {
        "status": "skip",
        "finding": f"not examined: {reason}",
        "meaning": "This check could not be made.",
        "details": {},
    }


def _alone(measure: Measure, subject: Session) -> Passes:
    """Return what a measure would cost if it shared nothing with others."""
    return total_passes(
        merge([("", measure.prerequisites())]),
        subject.population,
        subject.attacked,
        subject.train_size,
        subject.encoder.precision,
    )


def _charts_of(subject: Session, observation: Observation) -> list[dict[str, Any]]:
    """Return the charts of an observation as JSON data; of rows of training images, which stay in files, none."""
    if observation.scope is Scope.TRAINING:
        return []
    clean = subject.read(CLEAN)["reps"]
    return [chart_data(chart) for chart in observation.charts(subject.read(observation), clean)]
