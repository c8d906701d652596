"""holdfast reproduce: a table of a paper beside ours."""

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from holdfast.cli.common import JsonOption, QuietOption, SeedOption, answer, command_line, listening, out
from holdfast.cli.workers import engine_of
from holdfast.runtime.errors import HoldfastError, Status
from holdfast.runtime.privacy import public
from holdfast.storage.filesystem import local_folder


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which table, or a recipe.toml; none lists them.")] = None,
    profile: Annotated[str, typer.Option(help="full has the paper's parameters; small runs on a laptop.")] = "full",
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="NAME=SPEC, instead of the profile's; NAME=none leaves it out.")
    ] = None,
    out_folder: Annotated[str | None, typer.Option("--out", help="Run folder. (default: holdfast-NAME-…)")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps.")] = "cpu",
    workers: Annotated[int | None, typer.Option(help="Worker processes of the audits. (default: none)")] = None,
    seed: SeedOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Reproduce a table or figure of a paper: its numbers beside ours, and a verdict for each claim of the text."""
    from holdfast.report.reproduction import markdown, print_reproduction
    from holdfast.storage.run_folder import Store
    from holdfast.workflows.reproduce.recipe import read
    from holdfast.workflows.reproduce.run import reproduce as run

    if name is None:
        _list_all()
        return
    asked, given = read(name, profile), {}
    for one in inputs or ():
        key, equals, spec = one.partition("=")
        if not equals:
            raise HoldfastError(f"--input: expected NAME=SPEC, got {one!r}")
        given[key] = spec
    folder = local_folder(f"holdfast-{asked.name}-{profile}" if out_folder is None else out_folder)
    engine = engine_of(None, workers, device)
    with listening(quiet) as bars:
        found = run(
            asked, folder, inputs=given, device=device, seed=seed or 0, engine=engine, listener=bars,
            command=command_line(),
        )  # fmt: skip
    Store(folder).write("reproduction.md", lambda path: path.write_text(public(markdown(found)), encoding="utf-8"))
    if json_output:
        answer(found)
    else:
        print_reproduction(found, out)
        out.print(f"as Markdown: {folder / 'reproduction.md'}", soft_wrap=True)
    if found["failures"]:
        raise typer.Exit(Status.UNMET)


def _list_all() -> None:
    """Print every table and figure, paper by paper, with its profiles and how long they take."""
    from holdfast.workflows.reproduce.recipe import FULL, folder, made, names, profiles, read_file

    papers: dict[str, Table] = {}
    for known in names():
        values = read_file(folder() / f"{known}.toml")
        one = made(values, known, FULL)
        if one.paper not in papers:
            papers[one.paper] = Table("name", "what", "profiles", box=None, pad_edge=False, show_header=False)
        times = []
        for profile in profiles(values):
            minutes = None if profile == FULL else made(values, known, profile).minutes
            times.append(profile if minutes is None else f"{profile} (~{minutes:g} min)")
        papers[one.paper].add_row(Text(known, "bold"), f"{one.where}: {one.title}", ", ".join(times))
    for paper, table in papers.items():
        out.print(f"\n{paper}", style="underline")
        out.print(table)
