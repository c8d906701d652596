"""holdfast audit: encoders on images."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.auditing.request import AuditRequest
from holdfast.cli.common import (
    JsonOption,
    OutOption,
    QuietOption,
    StrictOption,
    listening,
    partly,
    run_plan,
    show,
    standing_answer,
)
from holdfast.cli.options import Given, asks, number
from holdfast.cli.workers import begin_workers, engine_of, make_shard
from holdfast.runtime.errors import BadValue, Conflict


@asks(AuditRequest)
def audit(
    given: Given,
    out_folder: OutOption = "holdfast-audit",
    workers: Annotated[int | None, typer.Option(help="Worker processes that share the audit. (default: none)")] = None,
    engine: Annotated[
        str | None, typer.Option(help="Engine for workers: processes or ray. (default: processes)")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster. (default: start one here)")] = None,
    gpus: Annotated[float | None, typer.Option(help="GPUs per Ray worker; 0.5 puts two workers on one GPU.")] = None,
    shard: Annotated[
        str | None, typer.Option(help="Compute only part I/N of the shards; `holdfast merge` scores them.")
    ] = None,
    strict: StrictOption = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another audit in the same folder.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Estimate time, memory and disk from the first shards; the audit continues from them."
        ),
    ] = False,
    calibrate: Annotated[
        float, typer.Option(parser=number, help="Seconds that --dry-run spends on each encoder.")
    ] = 15.0,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Audit encoders on your images: measures, validity checks, record and report."""
    if calibrate <= 0:
        raise BadValue(f"--calibrate: expected seconds above 0, got {calibrate:g}")
    # The answer of the same request, where it stands: neither torch nor any part is imported for it
    asked = AuditRequest(**given)
    files = any(name.endswith(".toml") for name in (*asked.encoders, asked.profile))
    known = None if files or dry_run or shard is not None else [given, overwrite]
    if known is not None and standing_answer(known, out_folder, json_output, quiet, strict):
        return
    if not dry_run:
        begin_workers(engine, workers)
    from holdfast.auditing.plan_file import make_plan, read_plan, refuse_idle_ball

    # The plan: of a file and the options over it, or of the options alone
    if len(asked.encoders) == 1 and asked.encoders[0].endswith(".toml"):
        over = {name: value for name, value in given.items() if name != "encoders"}
        plan = read_plan(Path(asked.encoders[0]), over)
    else:
        refuse_idle_ball(asked)
        plan = make_plan(asked)
    # The estimate, a part, or the whole of it
    chosen = engine_of(engine, workers, plan.device, address, gpus)
    if dry_run:
        _estimate(plan, out_folder, calibrate, json_output, workers or 1, shard, quiet)
    elif shard is not None:
        if not chosen.in_process:
            raise Conflict("--shard is for processes that you start yourself; leave out --workers and --engine")
        if asked.budget not in (None, "none") or asked.until is not None:
            raise Conflict("--shard makes its part of all shards; leave out --budget and --until")
        make_shard(replace(plan, budget=None, until=None), out_folder, shard, json_output, overwrite, quiet)
    else:
        run_plan(plan, out_folder, json_output, overwrite, chosen, quiet, strict, known)


def _estimate(
    plan: Any, folder: str, seconds: float, json_output: bool, workers: int, shard: str | None, quiet: bool
) -> None:
    """Print what an audit will take; encoders that cannot be opened or run end the command as `partly` says."""
    from holdfast.auditing.estimate.estimate import estimate
    from holdfast.auditing.partition import part_of
    from holdfast.report.documents.estimate import document

    part = None if shard is None else part_of(shard)
    with listening(quiet) as bars:
        expected = estimate(plan, folder, seconds=seconds, workers=workers, part=part, say=bars.stage)
    show(expected, json_output, lambda: document(expected))
    broken = [encoder.error for encoder in expected.encoders if encoder.error]
    partly(broken, len(broken) < len(expected.encoders))
