"""From what an audit takes to what one of its rounds takes, or the same audit on more images."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.auditing.estimate.time_passes import PassTimes
from holdfast.auditing.plan import Plan, Round
from holdfast.auditing.rounds import answering
from holdfast.auditing.shards import ends_of_rounds
from holdfast.core import Observation
from holdfast.storage.estimate import Budget, PartEstimate

Seconds = Callable[[Plan, int], float]
"""What a plan takes on so many images like those that were timed."""


@dataclass(frozen=True)
class Timed:
    """What the audit of one encoder takes, part by part.

    Attributes:
        plan: the audit.
        population: its images.
        train: images that probes learn from; None: those that are not attacked.
        observations: what each of its observations takes.
        others: what else there is to do: once, reading, scores.
        passes: what single passes take.
        workers: processes among which observations and reading are divided.
        draws: of the encoder.
    """

    plan: Plan
    population: int
    train: int | None
    observations: Mapping[Observation, PartEstimate]
    others: Sequence[PartEstimate]
    passes: PassTimes
    workers: int
    draws: int | None

    def seconds(self, plan: Plan, population: int) -> float:
        """Return what another plan, all of whose questions are among those of this one, takes on such images."""
        more = population / self.population
        # Observations by their passes; where they make none, by their images
        timed = {observation.key(): (observation, cost) for observation, cost in self.observations.items()}
        split, whole = plan.split(population, self.train), self.plan.split(self.population, self.train)
        shared = 0.0
        for observation in plan.observations:
            of_all, cost = timed[observation.key()]
            each, of_each = (o.passes_at(plan.precision, self.draws).work for o in (observation, of_all))
            share = each / of_each if of_each else 1.0
            shared += cost.seconds * share * split.extent(observation) / max(1, whole.extent(of_all))
        # Everything else
        alone = self.passes.seconds(plan.predict_checks(population, self.draws))
        for part in self.others:
            if part.kind == "reading":
                shared += part.seconds * more
            elif part.kind == "once":
                alone += part.seconds
            elif (measure := plan.measures_by_name.get(part.title)) is not None:
                pairs = measure.pairs(self.population)
                alone += part.seconds * (measure.pairs(population) / pairs if pairs else more)
        return shared / self.workers + alone


def foresee_budget(
    plan: Plan, budget: float, population: int, shape: tuple[int, int, int], encoders: Iterable[Seconds]
) -> Budget:
    """Return how far an audit comes within its budget, by what each of its encoders takes."""
    encoders = list(encoders)

    def predict(asked: Plan, end: int) -> float:
        return sum(seconds(replace(asked, round=Round(end)), population) for seconds in encoders)

    ends = ends_of_rounds(plan, population, shape)
    within = [(end, took) for end in ends if (took := predict(plan, end)) <= budget]
    if within:
        end, took = within[-1]
        return Budget(seconds=budget, attacked=end, takes=took)
    # The first round is made whatever it takes
    first = answering(plan)
    return Budget(
        seconds=budget, attacked=ends[0], takes=predict(first or plan, ends[0]), answers_only=first is not None
    )
