"""One command for a GPU: is what Holdfast computes there right, how fast is it, and where does the host wait.

    PYTHONPATH=src python3 -m benchmarks.gpu [--rehearse] [--only SECTION,SECTION] [--rows REGEX] [--minutes 8]
        [--out DIR]
    PYTHONPATH=src python3 -m benchmarks.gpu --into-docs build/gpu/gpu.jsonl …

The first needs a checkout and a Python with torch and the core dependencies, no network, and nothing installed; what an
absent package would test is left out by name. It ends within its minutes; rows go to DIR as they come (gpu.jsonl, and
gpu.md to read). A row that crashes, or takes longer than its limit, is a row. Without a GPU, or with --rehearse, all of
it runs on the CPU in small. Exit status 1 where a number is not what it must be. Ctrl-C keeps what there is.

The second puts what GPUs gave into the tables of the docs; of a row that was made again the newest counts.
"""

import argparse
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path

CORE = {
    "torch": "torch", "numpy": "numpy", "scipy": "scipy", "sklearn": "scikit-learn", "jaxtyping": "jaxtyping",
    "typing_extensions": "typing-extensions", "msgspec": "msgspec",
    "safetensors": "safetensors", "PIL": "pillow", "pyarrow": "pyarrow",
    "fsspec": "fsspec", "filelock": "filelock",
    "typer": "typer", "rich": "rich", "jinja2": "jinja2", "matplotlib": "matplotlib",
}  # fmt: skip
"""Core dependencies: module -> as pip knows it."""


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, in small, though there is a GPU")
    parser.add_argument("--only", metavar="SECTIONS", help="some sections, separated by commas")
    parser.add_argument("--rows", metavar="REGEX", default="", help="those of which a part of the name matches")
    parser.add_argument("--minutes", type=float, default=8, help="for all (default: 8)")
    parser.add_argument("--out", type=Path, default=Path("build/gpu"), help="a folder (default: build/gpu)")
    parser.add_argument("--commit", default="", help="the state of the code, where it is no repository")
    parser.add_argument("--into-docs", type=Path, nargs="+", metavar="FILE", help="put gpu.jsonl of GPUs into the docs")
    options = parser.parse_args()
    began = time.monotonic()
    if absent := [package for module, package in CORE.items() if find_spec(module) is None]:
        raise SystemExit(f"expected Holdfast's core dependencies; lacking: {' '.join(absent)}: pip install them")
    if find_spec("holdfast") is None:
        raise SystemExit("expected to find holdfast; set PYTHONPATH=src in the root of a checkout")
    if options.into_docs is not None:
        from benchmarks.gpu.docs import publish

        print(publish(*options.into_docs))
        return
    raise SystemExit(_run(options, began))


def _run(options: argparse.Namespace, began: float) -> bool:
    """Make the rows, and return whether anything is wrong."""
    from benchmarks.gpu.conduct import conduct
    from benchmarks.gpu.device import here
    from benchmarks.gpu.row import Report
    from benchmarks.gpu.sections import SECTIONS, tasks

    only = frozenset(options.only.split(",") if options.only else SECTIONS)
    if strange := only - SECTIONS.keys():
        raise SystemExit(f"expected sections among {', '.join(SECTIONS)}; got {', '.join(sorted(strange))}")
    device = here(options.rehearse)
    report = Report(device.machine(options.commit), options.out)
    print(report.machine.title, flush=True)
    conduct(
        partial(tasks, device, only, options.rows), device, report, 60 * options.minutes - (time.monotonic() - began)
    )
    print(report.summary)
    print(f"written: {options.out}/gpu.jsonl and gpu.md; {time.monotonic() - began:.0f} s")
    return report.wrong


if __name__ == "__main__":
    main()
