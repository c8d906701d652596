"""holdfast compare: encoders of several audits, side by side."""

from collections.abc import Callable
from typing import Annotated

import typer

from holdfast.cli import completion
from holdfast.cli.common import AllowOption, CorrectionOption, GroupsOption, JsonOption, XOption, YOption, partly, show


def compare(
    folders: Annotated[list[str], typer.Argument(help="Run folders of audits on the same images.")],
    measure: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=completion.of_kind("measures"),
            help="Measures to compare, or one of their scores: MEASURE.SCORE. (default: the headlines of all)",
        ),
    ] = None,
    correction: CorrectionOption = "holm",
    groups: GroupsOption = None,
    x: XOption = None,
    y: YOption = None,
    csv: Annotated[str | None, typer.Option(help="Write a long table with a row per score as CSV.")] = None,
    parquet: Annotated[str | None, typer.Option(help="Write the long table as Parquet.")] = None,
    markdown: Annotated[str | None, typer.Option(help="Write a table of encoders and measures as Markdown.")] = None,
    latex: Annotated[str | None, typer.Option(help="Write it as a LaTeX table (booktabs).")] = None,
    digits: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=12,
            help="Significant digits of their values; intervals have as many decimals. (default: by the interval)",
        ),
    ] = None,
    transpose: Annotated[
        bool, typer.Option("--transpose", help="In these tables, put measures in rows and encoders in columns.")
    ] = False,
    p_values: Annotated[
        bool, typer.Option("--p-values", help="In these tables, add a column of p-values for each measure.")
    ] = False,
    html: Annotated[str | None, typer.Option(help="Write one page that opens offline.")] = None,
    eval_results: Annotated[
        str | None, typer.Option(help="Folder for YAML files in the .eval_results/ format of the Hugging Face Hub.")
    ] = None,
    benchmark: Annotated[str | None, typer.Option(help="Hub dataset with the leaderboard, for --eval-results.")] = None,
    source_url: Annotated[str | None, typer.Option(help="Where these results come from, for --eval-results.")] = None,
    allow: AllowOption = None,
    json_output: JsonOption = False,
) -> None:
    """Compare encoders of several audits: paired intervals, corrected verdicts, ranks with uncertainty."""
    from msgspec.structs import replace

    from holdfast.comparison.compare import compare_runs
    from holdfast.comparison.eval_results import write_eval_results
    from holdfast.comparison.exports import write_csv, write_parquet
    from holdfast.comparison.groups import read_groups
    from holdfast.comparison.records import open_runs
    from holdfast.report.document import ToCopy
    from holdfast.report.documents.comparison import document
    from holdfast.report.documents.comparison_table import Layout
    from holdfast.report.documents.comparison_table import document as table_document
    from holdfast.report.documents.comparison_table import latex as latex_of
    from holdfast.report.render import to_markdown
    from holdfast.runtime.errors import Missing
    from holdfast.storage.outputs import write_text

    # The comparison, of the folders that can be read
    runs, unreadable = open_runs(folders, allow=allow or ())
    methods = None if groups is None else read_groups(groups)
    data = compare_runs(runs, measures=measure or (), correction=correction, groups=methods, x=x, y=y)
    data = replace(data, problems=[*data.problems, *unreadable])

    # The files that are wanted
    if (digits, transpose, p_values) != (None, False, False) and markdown is None and latex is None:
        raise Missing("--digits, --transpose and --p-values: expected --markdown or --latex as well, to lay out")
    layout = Layout(digits=digits, transpose=transpose, p_values=p_values)

    def page() -> str:
        """Return the page, for which matplotlib is imported."""
        from holdfast.report.leaderboard import render
        from holdfast.storage.comparison import Leaderboard

        return render(Leaderboard(groups=[data]), "Comparison")

    exports: list[tuple[str | None, Callable[[str], object]]] = [
        (csv, lambda place: write_csv(data, place)),
        (parquet, lambda place: write_parquet(data, place)),
        (markdown, lambda place: write_text(place, to_markdown(table_document(data, layout)))),
        (latex, lambda place: write_text(place, latex_of(data, layout))),
        (html, lambda place: write_text(place, page())),
        (eval_results, lambda place: write_eval_results(data, place, benchmark, source_url)),
    ]
    requested = [(place, write) for place, write in exports if place is not None]
    for place, write in requested:
        write(place)
    show(data, json_output, lambda: [*document(data), *(ToCopy({"written": place}) for place, _ in requested)])
    partly(data.problems, True)
