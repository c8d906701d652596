"""holdfast reproduce: a table of a paper beside ours."""

from typing import Annotated

import typer

from holdfast.cli.common import (
    DeviceOption,
    JsonOption,
    QuietOption,
    SeedOption,
    command_line,
    listening,
    out,
    partly,
    show,
    show_markdown,
)
from holdfast.cli.workers import engine_of
from holdfast.runtime.errors import BadValue, Conflict
from holdfast.storage.filesystem import local_folder


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Name of a table or a recipe.toml. (default: list the tables)")
    ] = None,
    profile: Annotated[str, typer.Option(help="full uses the paper's parameters; small runs on a laptop.")] = "full",
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="NAME=SPEC replaces an input of the profile; NAME=none leaves it out."),
    ] = None,
    says: Annotated[
        list[str] | None,
        typer.Option(help="NAME=TEXT: what an --input is, where it is another one than the paper's: JPEG copies, say."),
    ] = None,
    out_folder: Annotated[str | None, typer.Option("--out", help="Run folder. (default: holdfast-NAME-…)")] = None,
    device: DeviceOption = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes of the audits. (default: none)")] = None,
    seed: SeedOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
    rehearse: Annotated[
        bool,
        typer.Option(help="Run everything on tiny stand-ins to check that every cell gets a number; keep nothing."),
    ] = False,
) -> None:
    """Reproduce a table or figure of a paper: its numbers beside ours, and a verdict on each claim."""
    from holdfast.report.documents.reproduction import document
    from holdfast.storage.run_folder import Store
    from holdfast.workflows.reproduce.pictures import cells_of, draw, open_audits
    from holdfast.workflows.reproduce.recipe import read
    from holdfast.workflows.reproduce.run import reproduce as run

    if name is None:
        _list_all()
        return
    if rehearse:
        if inputs or says or out_folder is not None or workers is not None or seed is not None:
            raise Conflict(
                "--rehearse reads stand-ins and keeps nothing: leave out --input, --says, --out, --workers and --seed"
            )
        _rehearse(name, profile, device or "cpu", json_output, quiet)
        return
    # The table, and the specs that take the place of its own
    recipe, specs, words = read(name, profile), _pairs("--input", "SPEC", inputs), _pairs("--says", "TEXT", says)
    # Trainings, audits and studies
    folder = local_folder(f"holdfast-{recipe.name}-{profile}" if out_folder is None else out_folder)
    device = device or "cpu"
    options = {"device": device, "seed": seed or 0, "engine": engine_of(None, workers, device)}
    with listening(quiet) as bars:
        record = run(recipe, folder, inputs=specs, says=words, **options, listener=bars, command=command_line())
    # The figure, in files beside the page
    figure, pictures = draw(recipe, cells_of(record), open_audits(recipe, folder, record.seeds))
    for picture, svg in pictures.items():
        Store(folder).write_text(picture, svg)
    show_markdown(record, json_output, document(record, figure), folder / "reproduction.md")
    partly(record.failures, True)


def _pairs(option: str, what: str, texts: list[str] | None) -> dict[str, str]:
    """Return what an option gives to inputs, by their names."""
    # The first = ends the name; a spec may hold others
    pairs = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise BadValue(f"{option}: expected NAME={what}, got {text!r}")
        pairs[name] = value
    return pairs


def _rehearse(name: str, profile: str, device: str, json_output: bool, quiet: bool) -> None:
    """Rehearse a table, and print which cells got no number."""
    from holdfast.report.documents.reproduction import document_rehearsal
    from holdfast.workflows.reproduce.recipe import read
    from holdfast.workflows.reproduce.rehearse import rehearse

    with listening(quiet) as bars:
        rehearsal = rehearse(read(name, profile), device, listener=bars)
    show(rehearsal, json_output, lambda: document_rehearsal(rehearsal))
    partly((*rehearsal.empty, *rehearsal.failures), True)


def _list_all() -> None:
    """Print every table and figure, paper by paper, with its profiles and how long they take."""
    from holdfast.report.documents.catalogue import document
    from holdfast.report.render import print_document
    from holdfast.workflows.reproduce.recipe import FULL, assemble, folder, names, profiles, read_file

    papers: dict[str, list[list[str]]] = {}
    for name in names():
        values = read_file(folder() / f"{name}.toml")
        recipe = assemble(values, name, FULL)
        times = []
        for profile in profiles(values):
            minutes = None if profile == FULL else assemble(values, name, profile).minutes
            times.append(profile if minutes is None else f"{profile} (~{minutes:g} min)")
        row = [name, f"{recipe.where}: {recipe.title}", ", ".join(times)]
        papers.setdefault(recipe.paper, []).append(row)
    print_document(document(papers), out)
