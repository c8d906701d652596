"""All benchmarks in one table: python -m benchmarks [--json]."""

from benchmarks import (
    adversarial_step,
    attack_step,
    certified_radius,
    knn,
    learning_step,
    pair_memory,
    sampling,
    sharing,
)
from benchmarks.result import Result, report


def measure() -> list[Result]:
    """Run every benchmark."""
    return [
        *sharing.measure(),
        *attack_step.measure(),
        *pair_memory.measure(),
        *knn.measure(),
        *sampling.measure(),
        *learning_step.measure(),
        *adversarial_step.measure(),
        *certified_radius.measure(),
    ]


if __name__ == "__main__":
    report(measure, __doc__)
