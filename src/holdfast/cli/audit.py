"""holdfast audit: encoders on images."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import completion
from holdfast.cli.common import (
    AllowOption,
    DeviceOption,
    EpsOption,
    JsonOption,
    OutOption,
    QuietOption,
    SeedOption,
    StrictOption,
    listening,
    number,
    partly,
    run_plan,
    show,
    standing_answer,
)
from holdfast.cli.workers import begin_workers, engine_of, make_shard
from holdfast.runtime.errors import HoldfastError


def audit(
    encoders: Annotated[
        list[str],
        typer.Argument(
            autocompletion=completion.encoders, help="Encoder specs (holdfast list encoders), or one plan.toml."
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.data,
            help="Images: a folder, a file or a spec (holdfast list data); synbench needs none.",
        ),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.data,
            help="Labelled images to train probes on. (default: the images that are not attacked)",
        ),
    ] = None,
    train_images: Annotated[int | None, typer.Option(help="How many training images. (default: all)")] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.profiles, help="Set of measures, see holdfast list profiles. (default: quick)"
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Time limit such as 2m or 1h; none: no limit. (default: the profile's; quick: 2m)"),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="When to stop: '24 images', 'breaking_radius ± 10%'. (default: when all is done)")
    ] = None,
    eps: EpsOption = None,
    norm: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.offer_words(*completion.NORMS),
            help="Norm of the ball: linf, l2 or patch. (default: linf)",
        ),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            help="Compute this measure instead of the profile's: NAME or NAME\\[parameter=value,...]; repeatable."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="measure.parameter=value; * means all measures.")
    ] = None,
    surrogate: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=completion.encoders,
            help="Encoder that an outsider attacks instead; each: all of this audit; repeatable. Adds its measures.",
        ),
    ] = None,
    images: Annotated[
        int | None, typer.Option(help="Number of images: the population that attacked images are compared with.")
    ] = None,
    attacked: Annotated[int | None, typer.Option(help="How many of them to attack.")] = None,
    out_folder: OutOption = "holdfast-audit",
    device: DeviceOption = None,
    seed: SeedOption = None,
    batch_size: Annotated[int | None, typer.Option(help="Images per encoder pass. (default: by image size)")] = None,
    skip_corrupt: Annotated[bool | None, typer.Option("--skip-corrupt", help="Leave out unreadable files.")] = None,
    skip_duplicates: Annotated[bool | None, typer.Option("--skip-duplicates", help="Leave out duplicates.")] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help=(
                "Precision of searches: float32, tf32, bf16, fp16; reported numbers are "
                "always float32. (default: float32)"
            )
        ),
    ] = None,
    compiled: Annotated[bool | None, typer.Option("--compiled", help="Run the encoder through torch.compile.")] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes that share the audit. (default: none)")] = None,
    engine: Annotated[
        str | None, typer.Option(help="Engine for workers: processes or ray. (default: processes)")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster. (default: start one here)")] = None,
    gpus: Annotated[float | None, typer.Option(help="GPUs per Ray worker; 0.5 puts two workers on one GPU.")] = None,
    shard: Annotated[
        str | None, typer.Option(help="Compute only part I/N of the shards; `holdfast merge` scores them.")
    ] = None,
    allow: AllowOption = None,
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
    request = {key: value for key, value in locals().items() if key not in ("json_output", "quiet", "strict")}
    if calibrate <= 0:
        raise HoldfastError(f"--calibrate: expected seconds above 0, got {calibrate:g}")
    # The answer of the same request, where it stands: neither torch nor any part is imported for it
    files = any(name.endswith(".toml") for name in (*encoders, profile or ""))
    known = None if files or dry_run or shard is not None else request
    if known is not None and standing_answer(known, out_folder, json_output, quiet, strict):
        return
    if not dry_run:
        begin_workers(engine, workers)
    from holdfast.auditing.plan_file import make_plan, read_plan, refuse_idle_ball

    # The plan: of a file and the options over it, or of the options alone
    run = {"images": images, "attacked": attacked, "seed": seed, "device": device, "skip_corrupt": skip_corrupt}
    run |= {"batch_size": batch_size, "norm": norm, "eps": eps, "train": train, "train_images": train_images}
    run |= {"skip_duplicates": skip_duplicates, "precision": precision, "compiled": compiled, "allow": allow}
    run |= {"budget": budget, "until": until, "measures": measure or None, "surrogates": surrogate or None}
    if len(encoders) == 1 and encoders[0].endswith(".toml"):
        plan = read_plan(Path(encoders[0]), profile=profile, data=data, set=settings or None, **run)
    else:
        options = {key: value for key, value in run.items() if value is not None}
        if not measure:
            refuse_idle_ball(profile or "quick", norm, eps)
        plan = make_plan(encoders, data, profile=profile or "quick", settings=settings or (), **options)
    # The estimate, a part, or the whole of it
    chosen = engine_of(engine, workers, plan.device, address, gpus)
    if dry_run:
        _estimate(plan, out_folder, calibrate, json_output, workers or 1, shard, quiet)
    elif shard is not None:
        if not chosen.in_process:
            raise HoldfastError("--shard is for processes that you start yourself; leave out --workers and --engine")
        if budget not in (None, "none") or until is not None:
            raise HoldfastError("--shard makes its part of all shards; leave out --budget and --until")
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
    show(expected, json_output, document(expected))
    broken = [encoder.error for encoder in expected.encoders if encoder.error]
    partly(broken, len(broken) < len(expected.encoders))
