"""Schedules of random dependencies, with workers that die and units that fail: nothing lost, nothing twice."""

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.auditing.plan import dependencies
from holdfast.auditing.schedule import ATTEMPTS, Schedule
from holdfast.auditing.units import ENCODER, Audited, Layout, Task
from holdfast.core import HoldfastError
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.training import Training
from holdfast.storage.run_folder import StoreError

DIES, FAILS = "dies", "fails"


@dataclass
class World:
    """An audit of which only the order matters; `fates` holds what becomes of a unit's first tries."""

    encoders: int
    needed: list[set[int]]
    stored: list[list[bool]]  # of every encoder
    workers: int
    fates: dict[tuple, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layout = Layout(
            [[10 * o + s + 1 for s in range(len(row))] for o, row in enumerate(self.stored)], self.stored
        )
        self.made: Counter[tuple[int, int, int]] = Counter()
        self.tried: Counter[tuple] = Counter()
        self.scored: list[Task] = []
        self.told = self.deaths = 0

    @property
    def work(self) -> int:
        return sum(map(sum, self.layout.work))

    def complete(self, encoder: int, observation: int) -> bool:
        row = self.stored[observation]
        return all(there or self.made[encoder, observation, shard] for shard, there in enumerate(row))

    def run(self, pick) -> Schedule:
        """Run the schedule; `pick` chooses which of the busy workers ends first."""
        schedule, busy, last = Schedule(self.encoders, self.needed, self.work), {}, {}
        for _ in range(10_000):
            if schedule.finished:
                return schedule
            for worker in set(range(self.workers)) - set(busy):
                if (task := schedule.next(last.get(worker))) is not None:
                    assert task.lost is None or not any(other.encoder == task.encoder for other in busy.values())
                    assert task[:3] not in {other[:3] for other in busy.values()}, "a unit is done twice at a time"
                    self.begun(task)
                    busy[worker], last[worker] = task, task.encoder
            assert busy, "nothing is ready, and it is not finished"
            worker = pick(sorted(busy))
            self.end(schedule, busy.pop(worker))
        raise AssertionError("it does not end")

    def begun(self, task: Task) -> None:
        if task.observation is None:
            return
        assert not self.stored[task.observation][task.shard]
        assert not self.made[task[:3]], "a unit is done again"
        for other in self.needed[task.observation]:
            assert self.complete(task.encoder, other), "what a unit depends on is not complete"

    def end(self, schedule: Schedule, task: Task) -> None:
        unit = (*task[:3], task.lost is not None)
        fates, tried = self.fates.get(unit, []), self.tried[unit]
        self.tried[unit] += 1
        if task.lost is not None and ENCODER in task.lost:
            fates = []  # no encoder is touched
        fate = fates[tried] if tried < len(fates) else ""
        if fate == DIES:
            self.deaths += 1
            schedule.died(task, "killed")
        elif fate == FAILS and task.lost is None:
            schedule.failed(task, ValueError("no"))
        elif task.lost is not None:
            self.scored.append(task)
            self.told += schedule.done(task, Audited({"encoder": task.encoder}))
        elif task.observation is None:
            self.told += schedule.done(task, self.layout)
        else:
            self.made[task[:3]] += 1
            self.told += schedule.done(task, None)


@st.composite
def worlds(draw, faults: bool) -> World:
    count = draw(st.integers(1, 5))
    needed: list[set[int]] = []
    for i in range(count):
        direct = draw(st.sets(st.integers(0, i - 1))) if i else set()
        needed.append(direct.union(*(needed[j] for j in direct)))
    order = draw(st.permutations(range(count)))  # what is needed may stand behind
    needed = [{order[j] for j in needed[order.index(i)]} for i in range(count)]
    stored = draw(st.lists(st.lists(st.booleans(), max_size=4), min_size=count, max_size=count))
    world = World(draw(st.integers(1, 3)), needed, stored, draw(st.integers(1, 4)))
    if faults:
        shards = [(o, s, False) for o, row in enumerate(stored) for s in range(len(row))]
        units = [(e, *unit) for e in range(world.encoders) for unit in [(None, 0, False), (None, 0, True), *shards]]
        world.fates = draw(
            st.dictionaries(st.sampled_from(units), st.lists(st.sampled_from([DIES, FAILS, ""]), max_size=4))
        )
    return world


@settings(deadline=None, max_examples=60)
@given(worlds(faults=False), st.randoms(use_true_random=False))
def test_every_unit_is_done_once_and_in_order(world: World, random) -> None:
    schedule = world.run(random.choice)
    wanted = {
        (e, o, s): 1
        for e in range(world.encoders)
        for o, row in enumerate(world.stored)
        for s, there in enumerate(row)
        if not there
    }
    assert world.made == wanted
    assert sorted((task.encoder, task.lost) for task in world.scored) == [(e, {}) for e in range(world.encoders)]
    assert [result.row["encoder"] for result in schedule.results] == list(range(world.encoders))
    assert {result.resumed for result in schedule.results} == {sum(map(sum, world.stored))}
    assert schedule.deaths == 0
    assert world.told == world.work * world.encoders


@settings(deadline=None, max_examples=120)
@given(worlds(faults=True), st.randoms(use_true_random=False))
def test_deaths_and_failures_cost_what_depends_on_them_and_nothing_else(world: World, random) -> None:
    schedule = world.run(random.choice)
    assert all(count == 1 for count in world.made.values())
    assert sorted(task.encoder for task in world.scored) == list(range(world.encoders))
    assert schedule.deaths == world.deaths
    assert world.told == world.work * world.encoders
    for task in world.scored:
        broken = {u[1] for u, fates in world.fates.items() if u[0] == task.encoder and u[1] is not None and gone(fates)}
        spared = [o for o in range(len(world.stored)) if o not in broken and not world.needed[o] & broken]
        opening = world.fates.get((task.encoder, None, 0, False), [])
        if not gone(opening):
            assert all(world.complete(task.encoder, o) for o in spared)
        assert all("killed" in why for why in task.lost.values())
        if opening[:ATTEMPTS] == [DIES] * ATTEMPTS:
            assert list(task.lost) == [ENCODER]


def gone(fates: list[str]) -> bool:
    """Whether a unit does not get done: it fails before it succeeds, or kills as many workers as there are tries."""
    first = next((fate for fate in fates if fate != DIES), "")
    return fates[:ATTEMPTS].count(DIES) == ATTEMPTS or first == FAILS


def test_a_worker_keeps_the_encoder_that_it_has_open() -> None:
    schedule = Schedule(2, [set()], 4)
    layout = Layout([[1, 1]], [[False, False]])
    assert [schedule.next(), schedule.next()] == [Task(0), Task(1)]
    for encoder in (0, 1):
        schedule.done(Task(encoder), layout)
    assert schedule.next(1) == Task(1, 0, 0)
    assert schedule.next(1) == Task(1, 0, 1)
    assert schedule.next(1) == Task(0, 0, 0)  # no more of its own


def test_a_folder_that_cannot_be_written_ends_the_audit() -> None:
    schedule = Schedule(1, [set()], 1)
    with pytest.raises(StoreError, match="full"):
        schedule.failed(Task(0), StoreError("full"))


def test_scoring_without_an_encoder_that_kills_its_worker_ends_the_audit() -> None:
    schedule, lost = Schedule(1, [set()], 1), Task(0, lost={ENCODER: "gone"})
    for _ in range(ATTEMPTS - 1):
        schedule.died(lost, "killed")
    with pytest.raises(HoldfastError, match="what is already stored is kept"):
        schedule.died(lost, "killed")


def test_dependencies_of_observations() -> None:
    attacked, of_attacked = Attacked(), Training()
    assert dependencies([Clean(), Training(), attacked]) == [set(), set(), {0}]
    assert dependencies([attacked, Clean(), of_attacked]) == [{1}, set(), set()]
