"""Encoder passes of an audit: predicted by the plan, counted at the network, and what the measures would cost alone.

python -m benchmarks.sharing [--json]
"""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import Tensor, nn

from benchmarks.result import Result, report
from holdfast.auditing.plan import Plan, merge, validity_panel
from holdfast.auditing.profile import profile
from holdfast.auditing.run import run_audit
from holdfast.core import Encoder, Measure, Passes
from holdfast.sources.encoders import open_encoder
from holdfast.storage.entry import PassesEntry
from holdfast.storage.record import Spent

TARGET = 0.5
SHORT = ("Table 5 set*", "digits audit*")
"""Names of what `short` measures."""
ENCODER = "zoo:digits-simclr"
TRAJECTORIES, STEPS = 4, 50
"""By hand: Table 5 reads 50 steps of U-PGD, untargeted and targeted, in two balls; all else are read-outs of these."""


class Counting(nn.Module):
    """A network that counts the images which pass through it, forward and backward, by itself."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network, self.forwards, self.backwards = network, 0, 0

    def forward(self, x: Tensor) -> Tensor:
        """Pass images through the network."""
        self.forwards += x.shape[0]
        if x.requires_grad:
            x.register_hook(self._count_backward)
        return self.network(x)

    def _count_backward(self, gradient: Tensor) -> None:
        self.backwards += gradient.shape[0]


def alone(measures: Iterable[Measure], population: int, attacked: int) -> Passes:
    """Return what the measures cost when each is run by itself, sharing within itself only."""
    unions = (merge([("", measure.observations())]) for measure in measures)
    return sum((o.passes * o.images(population, attacked) for union in unions for o in union), Passes())


def by_hand(population: int, attacked: int) -> Passes:
    """Return the passes of the Table 5 set, counted without the plan."""
    return Passes(population + TRAJECTORIES * (STEPS + 1) * attacked, TRAJECTORIES * STEPS * attacked)


def plan_of(images: int, attacked: int, checks: bool) -> Plan:
    """Return the paper's plan for one encoder."""
    paper = profile("paper")
    panel = validity_panel(paper.measures, paper.examined, paper.queries) if checks else ()
    return Plan((ENCODER,), "digits", paper.measures, panel, images=images, attacked=attacked)


def real_run(images: int, attacked: int, checks: bool) -> tuple[Passes, Passes, Passes]:
    """Run an audit; return the passes counted at the network, those recorded, and those predicted.

    The last two are of the observations, plus what each check says it made by itself.
    """
    opened = open_encoder(ENCODER)
    network = Counting(opened.module)
    encoder = Encoder(network, mean=opened.mean, std=opened.std, geometry=opened.geometry, name=ENCODER)
    plan = plan_of(images, attacked, checks)
    with TemporaryDirectory() as folder:
        record = run_audit(plan, Path(folder), encoders={ENCODER: encoder})
    if record.failures:
        raise RuntimeError(f"the audit failed: {record.failures}")
    entry = record.encoders[0]
    own = sum((_passes(check.passes) for check in entry.checks.values()), Passes())
    recorded = _passes(entry.passes)
    counted = Passes(network.forwards, network.backwards)
    return counted, recorded + own, plan.predict(record.data.images) + own


def _passes(entry: PassesEntry | Spent | None) -> Passes:
    """Return what the record says of passes."""
    return Passes() if entry is None else Passes(entry.forward, entry.backward, entry.bounds)


def _difference(name: str, found: Passes, expected: Passes) -> Result:
    apart = abs(found.forward - expected.forward) + abs(found.backward - expected.backward)
    note = f"{found.forward:,} forward + {found.backward:,} backward"
    return Result(name, float(apart), None, "passes", 0.0, note)


def measure(images: int = 100, attacked: int = 20) -> list[Result]:
    """Return the share of passes that sharing leaves, and how far counts and predictions are apart.

    Args:
        images: population of the real run.
        attacked: how many of them are attacked.
    """
    paper = plan_of(10_000, 1000, checks=False)
    shared, unshared = paper.predict(10_000), alone(paper.measures, 10_000, 1000)
    note = f"10,000 images, 1,000 attacked: {shared.total:,} of {unshared.total:,}"
    results = [
        Result("Table 5 set, passes / measures alone", shared.total / unshared.total, None, "x", TARGET, note),
        _difference("Table 5 set, predicted - by hand", shared, by_hand(10_000, 1000)),
    ]
    for checks in (False, True):
        counted, recorded, predicted = real_run(images, attacked, checks)
        what = "digits audit with checks" if checks else "digits audit"
        results.append(_difference(f"{what}, counted - predicted", counted, predicted))
        results.append(_difference(f"{what}, recorded - counted", recorded, counted))
        if not checks:
            results.append(_difference(f"{what}, counted - by hand", counted, by_hand(images, attacked // 2 * 2)))
    return results


short = measure


if __name__ == "__main__":
    report(measure, __doc__)
