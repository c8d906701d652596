"""All benchmarks in one table, then what was asked of them and what became of it.

    python -m benchmarks [--slow] [--only NAME,NAME] [--json] [--plot DIR]

--slow adds those that take many minutes: rare events, SynBench, the curve of certified accuracy and breaking radii.
"""

import argparse
import importlib
import sys
import time

from benchmarks import asked
from benchmarks.result import Result, arguments, publish

QUICK = (
    "sharing", "whole_audit", "attack_step", "pair_memory", "knn", "sampling", "learning_step", "adversarial_step",
    "certified_radius", "common_corruptions", "images", "dimensions", "certificate_growth", "index", "workers",
    "constants", "onnx_step", "startup",
)  # fmt: skip
SLOW = ("rare_events", "synbench", "certified_accuracy", "breaking_radius")


def chosen(only: str | None, slow: bool) -> tuple[str, ...]:
    """Return the names of the benchmarks to run.

    Raises:
        SystemExit: a name that there is not.
    """
    names = tuple(only.split(",")) if only else (*QUICK, *(SLOW if slow else ()))
    if strange := [name for name in names if name not in (*QUICK, *SLOW)]:
        raise SystemExit(f"expected benchmarks among {', '.join((*QUICK, *SLOW))}; got {', '.join(strange)}")
    return names


def measure(names: tuple[str, ...]) -> list[Result]:
    """Run benchmarks one after the other; what each found is told at once, so that an interruption loses one."""
    results: list[Result] = []
    for name in names:
        began = time.perf_counter()
        found = importlib.import_module(f"benchmarks.{name}").measure()
        for one in found:
            print(f"  {one.name}: {one.value:.4g} {one.unit}", file=sys.stderr)
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
        results += found
    return results


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments(parser)
    parser.add_argument("--slow", action="store_true", help="also those that take many minutes")
    parser.add_argument("--only", metavar="NAMES", help="some of them, separated by commas")
    options = parser.parse_args()
    results = measure(chosen(options.only, options.slow))
    if not options.json:
        asked.show(results)
    publish(results, options.json, options.plot)


if __name__ == "__main__":
    main()
