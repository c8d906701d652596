"""holdfast compare: encoders of several audits, side by side."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from holdfast.cli.common import AllowOption, answer, out
from holdfast.runtime.errors import Status

CorrectionOption = Annotated[str, typer.Option(help="For many comparisons at once: holm, bh or none.")]
XOption = Annotated[str | None, typer.Option("--x", help="Measure drawn across. (default: clean kNN accuracy)")]
YOption = Annotated[str | None, typer.Option("--y", help="Measure drawn up. (default: a measure of robustness)")]


def compare(
    folders: Annotated[list[str], typer.Argument(help="Run folders of audits on the same images.")],
    measure: Annotated[list[str] | None, typer.Option(help="Which measures. (default: all)")] = None,
    correction: CorrectionOption = "holm",
    x: XOption = None,
    y: YOption = None,
    csv: Annotated[str | None, typer.Option(help="Write a long table, a row for each score.")] = None,
    parquet: Annotated[str | None, typer.Option(help="Write the same as Parquet.")] = None,
    markdown: Annotated[str | None, typer.Option(help="Write encoders against measures as Markdown.")] = None,
    latex: Annotated[str | None, typer.Option(help="Write the same as a LaTeX table (booktabs).")] = None,
    html: Annotated[str | None, typer.Option(help="Write one page that opens offline.")] = None,
    eval_results: Annotated[
        str | None, typer.Option(help="Folder for YAML files as .eval_results/ of the Hugging Face Hub takes them.")
    ] = None,
    benchmark: Annotated[str | None, typer.Option(help="Hub dataset with the leaderboard, for --eval-results.")] = None,
    source_url: Annotated[str | None, typer.Option(help="Where these results come from, for --eval-results.")] = None,
    allow: AllowOption = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print everything as JSON, and nothing else.")] = False,
) -> None:
    """Compare encoders of several audits: paired intervals, corrected verdicts, ranks with uncertainty."""
    from holdfast.comparison.compare import compare_runs
    from holdfast.comparison.eval_results import write_eval_results
    from holdfast.comparison.exports import write_csv, write_parquet
    from holdfast.comparison.records import open_runs
    from holdfast.report import comparison as texts
    from holdfast.report.leaderboard import render
    from holdfast.storage.filesystem import write_file

    runs, unreadable = open_runs(folders, allow=allow or ())
    data = compare_runs(runs, measures=measure or (), correction=correction, x=x, y=y)
    data["problems"] += unreadable

    def text(write: Callable[[], str], place: str) -> None:
        said = write()
        write_file(place, lambda path: Path(path).write_text(said, encoding="utf-8"))

    page: dict[str, Any] = {"groups": [data], "unreadable": []}
    exports: list[tuple[str | None, Callable[[str], object]]] = [
        (csv, lambda place: write_csv(data, place)),
        (parquet, lambda place: write_parquet(data, place)),
        (markdown, lambda place: text(lambda: texts.markdown(data), place)),
        (latex, lambda place: text(lambda: texts.latex(data), place)),
        (html, lambda place: text(lambda: render(page, "Comparison"), place)),
        (eval_results, lambda place: write_eval_results(data, place, benchmark, source_url)),
    ]
    for place, write in exports:
        if place is not None:
            write(place)
    if json_output:
        answer(data)
    else:
        texts.print_comparison(data, out)
        for place, _ in exports:
            if place is not None:
                out.print(Text.assemble("written: ", (place, "bold")), soft_wrap=True, highlight=False)
    if data["problems"]:
        raise typer.Exit(Status.UNMET)
