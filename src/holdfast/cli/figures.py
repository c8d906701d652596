"""holdfast figures: the charts of audits as files for a paper."""

from typing import Annotated

import typer

from holdfast.cli.common import AllowOption, GroupsOption, JsonOption, partly, show, warn


def figures(
    folders: Annotated[list[str], typer.Argument(help="Run folder of an audit, or several on the same images.")],
    folder: Annotated[
        str, typer.Option("--out", help="Folder, or URL, for the figures and their captions.")
    ] = "figures",
    form: Annotated[str, typer.Option("--format", help="pdf, svg, png or csv; several separated by commas.")] = "pdf",
    only: Annotated[list[str] | None, typer.Option(help="Names of figures. (default: all)")] = None,
    width: Annotated[str, typer.Option(help="column (3.3 inches), page (6.9), or inches.")] = "column",
    height: Annotated[float | None, typer.Option(help="Inches. (default: by the width and the chart)")] = None,
    font: Annotated[str, typer.Option(help="serif or sans.")] = "serif",
    size: Annotated[float, typer.Option(help="Font size in points.")] = 8.0,
    marks: Annotated[bool, typer.Option("--marks/--no-marks", help="Name places such as 8/255 and JPEG 90.")] = True,
    dpi: Annotated[float, typer.Option(help="Resolution of PNG files, in pixels per inch.")] = 300.0,
    groups: GroupsOption = None,
    allow: AllowOption = None,
    json_output: JsonOption = False,
) -> None:
    """Write the charts of one or several audits as figures for a paper, with captions."""
    from holdfast.comparison.compare import compare_runs
    from holdfast.comparison.groups import read_groups
    from holdfast.comparison.joint import joint
    from holdfast.comparison.records import open_runs
    from holdfast.report.documents.figures import document
    from holdfast.report.paper.folder import formats_of, write_figures
    from holdfast.report.paper.gather import figures_of_comparison, figures_of_record
    from holdfast.report.paper.style import Style, width_of
    from holdfast.storage.record_file import run_files

    kinds = formats_of(form)
    style = Style(width=width_of(width), height=height, font=font, size=size, marks=marks)  # pyright: ignore[reportArgumentType] checked
    runs, unreadable = open_runs(folders, fewest=len(folders[:2]), allow=allow or ())
    methods = None if groups is None else read_groups(groups)
    if len(folders) == 1 and methods is None:
        record = runs[0].record
        drawn = figures_of_record(record, run_files(runs[0].folder, record))
    else:
        compared = compare_runs(runs, groups=methods)
        drawn = figures_of_comparison(compared, *joint(runs, compared))
    written = write_figures(drawn, folder, kinds, style, only or (), dpi)
    facts = [{"name": f.name, "title": f.title, "caption": f.caption, "files": places} for f, places in written]
    problems = [*drawn.problems, *unreadable]
    show({"figures": facts, "problems": problems}, json_output, lambda: document(written, folder))
    for problem in problems:
        warn("left out:", problem)
    partly(problems, True)
