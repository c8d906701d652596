"""An audit by the workers of an engine: they observe and score, and leave the driver to put the record together."""

from collections.abc import Iterable, Sequence

from holdfast.auditing.schedule import Schedule
from holdfast.auditing.units import Audited, Job, Task
from holdfast.parts.engines.shared.pool import Engine
from holdfast.runtime.listener import Listener


def distribute(job: Job, engine: Engine, listener: Listener) -> tuple[list[Audited], int]:
    """Return what came out for each encoder of a plan, and how many workers died on the way.

    Raises:
        HoldfastError: an engine that cannot be started, a folder that cannot be written, or a unit without which there
            is no audit and that ends its worker again and again.
    """
    tested, train = job.known
    work = job.plan.predict(len(tested.rows), None if train is None else len(train.rows)).work
    schedule = Schedule(len(job.plan.encoders), job.plan.dependencies, work)
    name = job.names[0] if len(job.names) == 1 else f"{len(job.names)} encoders"
    listener.begin(name, work * len(job.names))
    listener.stage(f"starting {engine.title}")
    with engine.open(job) as pool:
        busy: dict[int, Task] = {}
        last: dict[int, int] = {}
        while not schedule.finished:
            for worker in sorted(set(range(pool.size)) - set(busy)):
                if (task := schedule.next(last.get(worker))) is None:
                    continue
                busy[worker], last[worker] = task, task.encoder
                pool.give(worker, task)
            if not busy:
                raise RuntimeError("units are left, and none of them is ready")
            listener.stage(f"{engine.title}: {_doing(job.names, busy.values())}")
            outcome = pool.wait()
            task = busy.pop(outcome.worker, None)
            if outcome.died:
                last.pop(outcome.worker, None)
            if task is None:
                schedule.deaths += 1  # of a worker that had nothing to do
            elif outcome.died:
                schedule.died(task, outcome.died)
            elif outcome.error is not None:
                schedule.failed(task, outcome.error)
            else:
                listener.advance(schedule.done(task, outcome.value))
    return schedule.results, schedule.deaths


def _doing(names: Sequence[str], tasks: Iterable[Task]) -> str:
    """Return which encoders are being worked on."""
    return ", ".join(dict.fromkeys(names[task.encoder] for task in tasks))
