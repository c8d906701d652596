"""The command line: a thin skin over the library."""

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.errors import HoldfastError, unknown

app = typer.Typer(
    help="Audit how well an image encoder's representations hold when the image is disturbed, without labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
out, err = Console(), Console(stderr=True)

DEMO_ENCODERS = ("zoo:digits-supervised", "zoo:digits-simclr", "zoo:digits-simclr-adv")

OutOption = Annotated[Path, typer.Option("--out", help="Run folder: record, tables, report. A killed audit resumes.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the record as JSON, and nothing else, on stdout.")]
SeedOption = Annotated[int | None, typer.Option(help="The one seed that decides everything. (default: 0)")]


def _number(text: str) -> float:
    """Read 0.05 or 4/255."""
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError) as error:
        raise typer.BadParameter(f"expected a number such as 0.05 or 4/255, got {text!r}") from error


@app.command()
def demo(
    out_folder: OutOption = Path("holdfast-demo"),
    json_output: JsonOption = False,
    seed: SeedOption = None,
) -> None:
    """Audit three shipped encoders on 600 handwritten digits they have not seen, and write the report."""
    from holdfast.audit.plan_file import make_plan

    plan = make_plan(
        DEMO_ENCODERS, "digits", profile_name="standard", eps=0.15, images=600, attacked=600, seed=seed or 0
    )
    _run(plan, out_folder, json_output)


@app.command()
def audit(
    encoders: Annotated[list[str], typer.Argument(help="Encoder specs (holdfast list encoders), or one plan.toml.")],
    data: Annotated[
        str | None, typer.Option(help="Images: a folder, a file or a spec (holdfast list data); synbench needs none.")
    ] = None,
    train: Annotated[
        str | None, typer.Option(help="Labelled images that probes learn from; else images that are not attacked.")
    ] = None,
    train_images: Annotated[int | None, typer.Option(help="How many of them. (default: all)")] = None,
    profile: Annotated[str | None, typer.Option(help="see holdfast list profiles. (default: standard)")] = None,
    eps: Annotated[
        float | None,
        typer.Option(parser=_number, help="Radius in pixels of a [0, 1] image, 0.05 or 4/255. (default: 0.05)"),
    ] = None,
    norm: Annotated[str | None, typer.Option(help="Norm of the ball: linf or l2. (default: linf)")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="measure.parameter=value; * for all.")] = None,
    images: Annotated[int | None, typer.Option(help="Images compared with each other.")] = None,
    attacked: Annotated[int | None, typer.Option(help="How many of them are attacked.")] = None,
    out_folder: OutOption = Path("holdfast-audit"),
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps. (default: cpu)")] = None,
    seed: SeedOption = None,
    batch_size: Annotated[int | None, typer.Option(help="Images per encoder pass. (default: by image size)")] = None,
    skip_corrupt: Annotated[bool | None, typer.Option("--skip-corrupt", help="Leave out unreadable files.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another audit in the same folder.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Audit encoders on your images: measures, validity checks, record and report."""
    from holdfast.audit.plan_file import make_plan, read_plan

    run = {"images": images, "attacked": attacked, "seed": seed, "device": device, "skip_corrupt": skip_corrupt}
    run |= {"batch_size": batch_size, "norm": norm, "eps": eps, "train": train, "train_images": train_images}
    if len(encoders) == 1 and encoders[0].endswith(".toml"):
        plan = read_plan(Path(encoders[0]), profile=profile, data=data, set=settings or None, **run)
    else:
        given = {key: value for key, value in run.items() if value is not None}
        plan = make_plan(encoders, data, profile_name=profile or "standard", settings=settings or (), **given)
    _run(plan, out_folder, json_output, overwrite)


def _run(plan: Any, folder: Path, json_output: bool, overwrite: bool = False) -> None:
    from holdfast.audit.run import run_audit
    from holdfast.report.html import write_report
    from holdfast.report.terminal import print_record

    with _interruptible() as bars:
        record = run_audit(plan, folder, listener=bars, command=_command(), overwrite=overwrite)
        bars.stage("writing the report")
        report = write_report(folder)
    if json_output:
        print(json.dumps(record, allow_nan=False))
    else:
        print_record(record, out, report)
    if record["failures"]:
        raise typer.Exit(1)


@contextmanager
def _interruptible() -> Iterator[Any]:
    """Show bars; an interrupt ends the command with status 130."""
    from holdfast.progress import Bars

    try:
        with Bars(err) as bars:
            yield bars
    except KeyboardInterrupt:
        err.print("[bold red]interrupted:[/] what is done is stored; the same command continues", soft_wrap=True)
        raise typer.Exit(130) from None


def _command() -> str:
    return shlex.join(["holdfast", *sys.argv[1:]])


@app.command()
def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe.toml: encoder, data, method, and how; see recipes/.")],
    data: Annotated[str | None, typer.Option(help="Images to learn from, instead of the recipe's.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value; adversary.threat.radius=0.1.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the images, instead of the recipe's.")] = None,
    images: Annotated[int | None, typer.Option(help="How many images to learn from. (default: all)")] = None,
    track: Annotated[list[str] | None, typer.Option(help="Trackers to tell: tensorboard, mlflow, trackio.")] = None,
    out_folder: Annotated[Path, typer.Option("--out", help="Run folder; an interrupted training resumes.")] = Path(
        "holdfast-train"
    ),
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps. (default: cpu)")] = None,
    seed: SeedOption = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print what came out as JSON, and nothing else.")] = False,
) -> None:
    """Train an encoder by a recipe: any method, with or without an adversary; torchrun starts several processes."""
    from holdfast.monitoring import monitors_of
    from holdfast.report.training import print_training
    from holdfast.store import Store
    from holdfast.training.loop import train as run
    from holdfast.training.recipe_file import read_beside, read_recipe

    given = {"data": data, "epochs": epochs, "images": images, "device": device, "seed": seed}
    asked, beside = read_recipe(recipe, settings or (), **given), read_beside(recipe, settings or ())
    speaks, began = os.environ.get("RANK", "0") == "0", time.perf_counter()  # of several processes, one
    watches = "monitor" in beside and speaks
    monitors = monitors_of(beside["monitor"], asked, Store(out_folder)) if watches else ()
    told = {"track": track or beside.get("track", ()), "monitors": monitors, "command": _command()}
    with _interruptible() as bars:
        trained = run(asked, out_folder, listener=bars if speaks else None, **told)
    if not speaks:
        return
    seen = [monitor.summary() for monitor in monitors]
    if json_output:
        last = trained.rows[-1]
        said = {"encoder": trained.spec, "steps": trained.steps, "resumed": trained.resumed, "loss": last["loss"]}
        print(json.dumps(said | {"monitors": seen}, allow_nan=False))
    else:
        print_training(trained.rows, time.perf_counter() - began, trained.resumed, seen, out)
        out.print(f"the encoder: [bold]{escape(trained.spec)}[/]", soft_wrap=True)
        out.print(f"audit it: holdfast audit {escape(shlex.quote(trained.spec))} --data FOLDER", soft_wrap=True)


@app.command()
def study(
    file: Annotated[Path, typer.Argument(help="A study.toml: methods, versions of the data; see recipes/studies/.")],
    data: Annotated[str | None, typer.Option(help="Images to learn from, instead of the file's.")] = None,
    test: Annotated[str | None, typer.Option(help="Labelled images to test on, instead of the file's.")] = None,
    out_folder: Annotated[Path, typer.Option("--out", help="Run folder; an interrupted study resumes.")] = Path(
        "holdfast-study"
    ),
    json_output: Annotated[bool, typer.Option("--json", help="Print the record as JSON, and nothing else.")] = False,
) -> None:
    """Train several methods on corrupted data, and say what each loses in accuracy."""
    from holdfast.report.study import markdown, print_study, problems
    from holdfast.store import Store
    from holdfast.study.file import read_study
    from holdfast.study.run import run_study

    asked = read_study(file, data=data, test=test)
    with _interruptible() as bars:
        record = run_study(asked, out_folder, listener=bars, command=_command())
    Store(out_folder).write("study.md", lambda path: path.write_text(markdown(record), encoding="utf-8"))
    if json_output:
        print(json.dumps(record, allow_nan=False))
    else:
        print_study(record, out)
        out.print(f"as Markdown: {escape(str(out_folder / 'study.md'))}", soft_wrap=True)
    if problems(record):
        raise typer.Exit(1)


@app.command()
def harden(
    encoder: Annotated[str, typer.Argument(help="Encoder spec, see holdfast list encoders; it is not changed.")],
    data: Annotated[str, typer.Option(help="Images to learn from; labels are not needed.")],
    objective: Annotated[
        str, typer.Option(help="auto (its own representations), or see holdfast list methods.")
    ] = "auto",
    budget: Annotated[str, typer.Option(help="Time for the training, 90s, 30m, 2h; audits come on top.")] = "30m",
    steps: Annotated[int | None, typer.Option(help="Steps of the training, instead of a budget.")] = None,
    eps: Annotated[
        float | None,
        typer.Option(parser=_number, help="Radius in pixels of a [0, 1] image, 0.05 or 4/255. (default: 0.05)"),
    ] = None,
    norm: Annotated[str, typer.Option(help="Norm of the ball: linf or l2.")] = "linf",
    attack: Annotated[
        str, typer.Option(help="What the adversary raises: untargeted, targeted or loss.")
    ] = "untargeted",
    views: Annotated[str | None, typer.Option(help="Augmentation: none, light or full.")] = None,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
    batch_size: Annotated[int, typer.Option(help="Images per step.")] = 64,
    test: Annotated[str | None, typer.Option(help="Images of the audits. (default: some of --data, held out)")] = None,
    train: Annotated[str | None, typer.Option(help="Labelled images for the kNN accuracy before and after.")] = None,
    profile: Annotated[str, typer.Option(help="What the audits ask, see holdfast list profiles.")] = "hardening",
    out_folder: Annotated[Path, typer.Option("--out", help="Run folder; an interrupted run resumes.")] = Path(
        "holdfast-harden"
    ),
    device: Annotated[str, typer.Option(help="cpu, cuda, mps.")] = "cpu",
    seed: Annotated[int, typer.Option(help="The one seed that decides everything.")] = 0,
    json_output: Annotated[bool, typer.Option("--json", help="Print what came out as JSON, and nothing else.")] = False,
) -> None:
    """Make a fragile encoder robust, without labels, and audit it before and after."""
    from holdfast.harden.plan import Hardening, seconds
    from holdfast.harden.run import harden as run
    from holdfast.report.hardening import print_hardening

    said = {"attack": attack, "norm": norm, "eps": eps, "views": views, "rate": rate, "batch_size": batch_size}
    said |= {"test": test, "train": train, "profile": profile, "seed": seed, "device": device}
    asked = Hardening(encoder, data, objective, steps=steps, budget=seconds(budget), **said)
    with _interruptible() as bars:
        found = run(asked, out_folder, listener=bars)
    if json_output:
        print(json.dumps(found, allow_nan=False))
    else:
        print_hardening(found, out)
    if found["failures"]:
        raise typer.Exit(1)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Run folder of an audit.")], json_output: JsonOption = False
) -> None:
    """Print the summary of a run folder again, and write its report anew."""
    from holdfast.report.html import write_report
    from holdfast.report.terminal import print_record

    written = write_report(folder)
    record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    if json_output:
        print(json.dumps(record, allow_nan=False))
    else:
        print_record(record, out, written)


@app.command("list")
def list_parts(
    kind: Annotated[str | None, typer.Argument(help="encoders, data, profiles, or a kind of part.")] = None,
    json_output: JsonOption = False,
) -> None:
    """List what there is: encoders, data, threats, attacks, certifiers, measures, checks, profiles and more."""
    from holdfast.report.parts import catalogue

    known = catalogue()
    if kind is not None and kind not in known:
        raise unknown("kind", kind, known)
    shown = {kind: known[kind]} if kind else known
    if json_output:
        print(json.dumps(shown))
        return
    for name, entries in shown.items():
        table = Table("name", "", title=name, title_justify="left", box=None, pad_edge=False, show_header=False)
        for key, line in entries.items():
            table.add_row(f"[bold]{escape(key)}[/]", escape(line))
        out.print(table, "")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A measure, attack, certifier or other part; or a profile.")],
) -> None:
    """Explain a part: what it asks, its formula, its parameters, where it was published; or what a profile asks."""
    from holdfast.report.parts import print_part

    print_part(name, out)


@app.command()
def doctor(json_output: JsonOption = False) -> None:
    """Say what is installed, what works, and what to install."""
    from holdfast.encoders import doctor as examine

    findings = examine()
    if json_output:
        print(json.dumps([{"name": n, "status": s, "detail": d} for n, s, d in findings]))
    else:
        colours = {"ok": "green", "missing": "yellow", "broken": "bold red"}
        table = Table("package", "status", "", box=None, pad_edge=False)
        for name, status, detail in findings:
            table.add_row(name, f"[{colours[status]}]{status}[/]", escape(detail))
        out.print(table)
    if any(status == "broken" for _, status, _ in findings):
        raise typer.Exit(1)


def main() -> None:
    """Run the command line; every foreseen fault is one line on stderr and a non-zero exit."""
    try:
        app()
    except HoldfastError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
        sys.exit(1)
