"""One command for a GPU: is what Holdfast computes there right, how fast is it, and where does the host wait.

    python -m benchmarks.gpu [--rehearse] [--only SECTION,SECTION] [--out DIR]

At most eight minutes, without a network; gpu.json and gpu.md go to DIR. Without a GPU, or with --rehearse, all of it
runs on the CPU in small. Exit status 1 where a number is not what it must be. Ctrl-C keeps what there is.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.gpu import certificates, correctness, precision, runs, steps, throughput
from benchmarks.gpu.device import here
from benchmarks.gpu.row import Report, Row

SECTIONS: dict[str, Callable[..., None]] = {
    "correctness": correctness.compare,
    "precision": precision.compare,
    "certificates": certificates.compare,
    "engines": runs.engines,
    "training": runs.trainings,
    "waits": lambda report, device, small: steps.count(report, device),
    "throughput": throughput.measure,
}
"""In the order in which they are made: what is wrong is said before what is fast."""


def run(folder: Path, *, rehearse: bool, only: tuple[str, ...] = tuple(SECTIONS)) -> Report:
    """Make some sections, or all; an interrupt ends them, and leaves a row that says so.

    Args:
        folder: for what is found.
        rehearse: on the CPU, in small.
        only: the sections.
    """
    device = here(rehearse)
    report = Report(device, folder)
    print(device.title, flush=True)
    for name in only:
        began = time.perf_counter()
        try:
            SECTIONS[name](report, device, not device.is_gpu)
        except KeyboardInterrupt:
            report.add(Row(name, "interrupted", "what follows was not made"))
            break
        except Exception as error:  # the sections after it are looked at all the same
            report.add(Row(name, "the section", f"{type(error).__name__}: {error}", "no error", False))
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return report


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, in small, though there is a GPU")
    parser.add_argument("--only", metavar="SECTIONS", help=f"some of {', '.join(SECTIONS)}, separated by commas")
    parser.add_argument("--out", type=Path, default=Path("build/gpu"), help="a folder (default: build/gpu)")
    options = parser.parse_args()
    only = tuple(options.only.split(",")) if options.only else tuple(SECTIONS)
    if strange := [name for name in only if name not in SECTIONS]:
        raise SystemExit(f"expected sections among {', '.join(SECTIONS)}; got {', '.join(strange)}")
    report = run(options.out, rehearse=options.rehearse, only=only)
    print(f"written: {options.out}/gpu.json and gpu.md")
    raise SystemExit(report.wrong)


if __name__ == "__main__":
    main()
