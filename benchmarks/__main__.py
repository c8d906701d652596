"""All benchmarks in one table, then their targets and whether they are met.

    python -m benchmarks [--slow] [--only NAME,NAME] [--write] [--jobs N] [--json] [--plot DIR]

--slow adds those that take many minutes: rare events, SynBench and the curve of certified accuracy. Breaking radii take
an hour: `--only breaking_radius`.
--write keeps what was measured in `measured.json`, each benchmark as a whole and as soon as it ends, and makes the
tables of docs/benchmarks.md from it. --jobs runs some at a time; those that want the machine to themselves run last.
"""

import argparse
import sys

from benchmarks import page, store, targets
from benchmarks.result import arguments, publish
from benchmarks.running import measure
from benchmarks.store import Run

QUICK = (
    "sharing", "whole_audit", "attack_step", "own_work", "pair_memory", "knn", "sampling", "learning_step",
    "adversarial_step", "certified_radius", "common_corruptions", "images", "dimensions", "certificate_growth", "index",
    "workers", "constants", "paper", "onnx_step",
    "libraries", "startup", "training_step", "peer_training", "fingerprints",
    "scale",
)  # fmt: skip
SLOW = ("rare_events", "synbench", "certified_accuracy")
HOURS = ("breaking_radius",)
"""They take an hour, count passes and so may be run on a busy machine; only `--only` runs them."""


def chosen(only: str | None, slow: bool) -> tuple[str, ...]:
    """Return the names of the benchmarks to run.

    Raises:
        SystemExit: a name that there is not.
    """
    names = tuple(only.split(",")) if only else (*QUICK, *(SLOW if slow else ()))
    if strange := [name for name in names if name not in (*QUICK, *SLOW, *HOURS)]:
        raise SystemExit(f"expected benchmarks among {', '.join((*QUICK, *SLOW, *HOURS))}; got {', '.join(strange)}")
    return names


def tell(name: str, new: Run, old: Run | None) -> None:
    """Say what a benchmark found, and which rows there are no more."""
    for result in new.results:
        print(f"  {result.name}: {result.value:.4g} {result.unit}", file=sys.stderr)
    gone = {result.name for result in old.results} - {result.name for result in new.results} if old else set()
    for row in sorted(gone):
        print(f"  gone: {row}", file=sys.stderr)
    print(f"{name}: {new.seconds:.0f} s", file=sys.stderr, flush=True)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments(parser)
    parser.add_argument("--slow", action="store_true", help="also those that take many minutes")
    parser.add_argument("--only", metavar="NAMES", help="some of them, separated by commas")
    parser.add_argument("--write", action="store_true", help="into measured.json and the tables of docs/benchmarks.md")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="benchmarks at a time")
    options = parser.parse_args()
    names = chosen(options.only, options.slow)
    runs: dict[str, Run] = {}
    for name, new in measure(names, options.jobs):
        tell(name, new, store.load().get(name))
        runs[name] = new
        if options.write:
            store.put(name, new)
            page.write()
    if not options.json:
        targets.show({**store.load(), **runs})
    lost = [name for name in names if name not in runs]
    if lost:
        print(f"failed: {', '.join(lost)}; what was stored of them stays as it was", file=sys.stderr)
    results = [result for name in names if name in runs for result in runs[name].results]
    publish(results, options.json, options.plot, failed=bool(lost))


if __name__ == "__main__":
    main()
