"""What observing an encoder cost, in encoder passes, and what the measures would have cost alone."""

from holdfast.auditing import record as entries
from holdfast.auditing.plan import Plan, merge, total_passes
from holdfast.auditing.session import Session
from holdfast.core import Measure, Observation, Passes, registry
from holdfast.storage.record import ObservationEntry, Spent

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
