"""Schedules of random dependencies, with workers that die and units that fail: nothing lost, nothing twice."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.auditing.encoder_result import EncoderResult, ItemError
from holdfast.auditing.plan import dependencies, requirements
from holdfast.auditing.schedule import ATTEMPTS, Part, Schedule
from holdfast.auditing.shards import ShardFile
from holdfast.auditing.work import OpenedEncoder, Step, WorkItem
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.training import Training

DIES, FAILS = "dies", "fails"


@dataclass
class World:
    """An audit of which only the order matters; `fates` holds what becomes of an item's first tries."""

    encoders: int
    needed: list[set[int]]
    stored: list[list[bool]]  # of every encoder
    workers: int
    fates: dict[tuple, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shards = [[ShardFile(s, s + 1, f"{o}/{s}") for s in range(len(row))] for o, row in enumerate(self.stored)]
        self.opened = OpenedEncoder(shards, [[10 * o + s + 1 for s in range(len(row))] for o, row in enumerate(shards)])
        self.made: Counter[tuple[int, int, int]] = Counter()
        self.tried: Counter[tuple] = Counter()
        self.scored: list[WorkItem] = []
        self.told = self.deaths = 0

    @property
    def work(self) -> int:
        return sum(map(sum, self.opened.work))

    def look(self, shards, verified) -> set[int]:
        """What is stored at first: of each encoder the same."""
        return {s for s, shard in enumerate(shards) if self.stored[int(shard.file[0])][s]}

    def look_now(self, shards, verified) -> set[int]:
        """What is stored of the first encoder now."""
        made = {s for s, shard in enumerate(shards) if self.made[0, int(shard.file[0]), s]}
        return self.look(shards, verified) | made

    def complete(self, encoder: int, observation: int) -> bool:
        row = self.stored[observation]
        return all(there or self.made[encoder, observation, shard] for shard, there in enumerate(row))

    def run(self, pick) -> Schedule:
        """Run the schedule; `pick` chooses which of the busy workers ends first."""
        schedule = Schedule(self.needed, self.needed, [self.work] * self.encoders, self.look)
        busy, last = {}, {}
        for _ in range(10_000):
            if schedule.is_finished:
                return schedule
            for worker in set(range(self.workers)) - set(busy):
                if (item := schedule.next(last.get(worker))) is not None:
                    assert item.step is not Step.SCORE or item.encoder not in {other.encoder for other in busy.values()}
                    assert item[:4] not in {other[:4] for other in busy.values()}, "an item is done twice at a time"
                    self.begun(item)
                    busy[worker], last[worker] = item, item.encoder
            assert busy, "nothing is ready, and it is not finished"
            worker = pick(sorted(busy))
            self.end(schedule, busy.pop(worker))
        raise AssertionError("it does not end")

    def begun(self, item: WorkItem) -> None:
        if item.step is not Step.OBSERVE:
            return
        assert not self.stored[item.observation][item.shard]
        assert not self.made[item.encoder, item.observation, item.shard], "a shard is made again"
        for other in self.needed[item.observation]:
            assert self.complete(item.encoder, other), "what an item depends on is not complete"

    def end(self, schedule: Schedule, item: WorkItem) -> None:
        fates, tried = self.fates.get(item[:4], []), self.tried[item[:4]]
        self.tried[item[:4]] += 1
        fate = fates[tried] if tried < len(fates) else ""
        if fate == DIES:
            self.deaths += 1
            self.told += schedule.died(item, "killed")
        elif fate == FAILS and item.step is not Step.SCORE:
            self.told += schedule.record_outcome(item, ItemError("no", shard=item.shard))
        elif item.step is Step.SCORE:
            self.scored.append(item)
            self.told += schedule.record_outcome(item, EncoderResult({"encoder": item.encoder}))
        elif item.step is Step.OPEN:
            self.told += schedule.record_outcome(item, self.opened)
        else:
            self.made[item.encoder, item.observation, item.shard] += 1
            self.told += schedule.record_outcome(item, None)


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
        shards = [(Step.OBSERVE, o, s) for o, row in enumerate(stored) for s in range(len(row))]
        each = [(Step.OPEN, 0, 0), (Step.SCORE, 0, 0), *shards]
        items = [(e, *item) for e in range(world.encoders) for item in each]
        world.fates = draw(
            st.dictionaries(st.sampled_from(items), st.lists(st.sampled_from([DIES, FAILS, ""]), max_size=4))
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
    assert schedule.shards == sum(wanted.values())
    assert sorted((item.encoder, item.lost) for item in world.scored) == [(e, {}) for e in range(world.encoders)]
    results = [encoder.result for encoder in schedule.encoders]
    assert [result and result.entry["encoder"] for result in results] == list(range(world.encoders))
    assert {result and result.resumed for result in results} == {sum(map(sum, world.stored))}
    assert schedule.deaths == 0
    assert world.told == world.work * world.encoders


@settings(deadline=None, max_examples=120)
@given(worlds(faults=True), st.randoms(use_true_random=False))
def test_deaths_and_failures_cost_what_depends_on_them_and_nothing_else(world: World, random) -> None:
    schedule = world.run(random.choice)
    assert all(count == 1 for count in world.made.values())
    assert schedule.deaths == world.deaths
    assert world.told == world.work * world.encoders
    ends = [number for number, encoder in enumerate(schedule.encoders) if encoder.error is not None]
    assert sorted(item.encoder for item in world.scored) == [e for e in range(world.encoders) if e not in ends]
    for number in ends:  # could not be opened, or killed all who scored it
        whole = [world.fates.get((number, step, 0, 0), []) for step in (Step.OPEN, Step.SCORE)]
        assert gone(whole[0]) or whole[1][:ATTEMPTS].count(DIES) == ATTEMPTS
        assert "killed" in str(schedule.encoders[number].error) or gone(whole[0])
    for item in world.scored:
        broken = {
            key[2] for key, fates in world.fates.items() if key[:2] == (item.encoder, Step.OBSERVE) and gone(fates)
        }
        spared = [o for o in range(len(world.stored)) if o not in broken and not world.needed[o] & broken]
        assert all(world.complete(item.encoder, o) for o in spared)
        assert set(item.lost) <= broken
        assert all("killed" in error.reason or error.reason == "no" for error in item.lost.values())


def gone(fates: list[str]) -> bool:
    """Whether a unit does not get done: it fails before it succeeds, or kills as many workers as there are tries."""
    first = next((fate for fate in fates if fate != DIES), "")
    return fates[:ATTEMPTS].count(DIES) == ATTEMPTS or first == FAILS


def test_a_worker_keeps_the_encoder_that_it_has_open() -> None:
    schedule = Schedule([set()], [set()], [4, 4], lambda shards, verified: set())
    opened = OpenedEncoder([[ShardFile(0, 1, "0/0"), ShardFile(1, 2, "0/1")]], [[1, 1]])
    assert [schedule.next(), schedule.next()] == [WorkItem(0, Step.OPEN), WorkItem(1, Step.OPEN)]
    for encoder in (0, 1):
        schedule.record_outcome(WorkItem(encoder, Step.OPEN), opened)
    assert schedule.next(1) == WorkItem(1, Step.OBSERVE, 0, 0)
    assert schedule.next(1) == WorkItem(1, Step.OBSERVE, 0, 1)
    assert schedule.next(1) == WorkItem(0, Step.OBSERVE, 0, 0)  # no more of its own


def test_of_several_errors_that_of_the_first_shard_is_kept() -> None:
    schedule = Schedule([set()], [set()], [2], lambda shards, verified: set())
    schedule.next()
    schedule.record_outcome(
        WorkItem(0, Step.OPEN), OpenedEncoder([[ShardFile(0, 1, "0/0"), ShardFile(1, 2, "0/1")]], [[1, 1]])
    )
    items = [schedule.next(), schedule.next()]
    for item in reversed(items):
        assert item is not None
        schedule.record_outcome(item, ItemError(f"shard {item.shard}", shard=item.shard))
    (reason,) = schedule.encoders[0].lost.values()
    assert reason.reason == "shard 0"


@settings(deadline=None, max_examples=60)
@given(worlds(faults=False), st.integers(1, 3), st.randoms(use_true_random=False))
def test_parts_together_make_every_shard_once_and_score_nothing(world: World, count: int, random) -> None:
    for number in range(1, count + 1):
        schedule = Schedule(world.needed, world.needed, [world.work], world.look_now, Part(number, count))
        told = 0
        while not schedule.is_finished:
            item = schedule.next()
            assert item is not None
            assert item.step is not Step.SCORE
            if item.step is Step.OBSERVE:
                world.begun(item)
                world.made[item.encoder, item.observation, item.shard] += 1
            told += schedule.record_outcome(item, world.opened if item.step is Step.OPEN else None)
        assert told == world.work
    assert all(world.complete(0, observation) for observation in range(len(world.stored)))


def test_dependencies_of_observations() -> None:
    attacked, of_attacked = Attacked(), Training()
    assert dependencies([Clean(), Training(), attacked]) == [set(), set(), {0}]
    assert dependencies([attacked, Clean(), of_attacked]) == [{1}, set(), set()]
    assert requirements([attacked, Clean(), of_attacked]) == [{1}, set(), set()]
