"""holdfast report: what a run folder holds."""

from typing import Annotated

import typer

from holdfast.cli.common import JsonOption, out, show
from holdfast.runtime.privacy import brief
from holdfast.storage.filesystem import Folder


def report(
    folder: Annotated[str, typer.Argument(help="Run folder of an audit.")],
    no_pictures: Annotated[
        bool, typer.Option("--no-pictures", help="Leave out pictures of images, for readers who may not see these.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Print the summary of a run folder again, and rewrite its report."""
    from holdfast.report.html import publish
    from holdfast.report.terminal import print_record
    from holdfast.storage.record_file import read_record

    record, written = read_record(Folder(folder), folder), publish(folder, with_pictures=not no_pictures)
    show(record, json_output, lambda: print_record(record, out, brief(written)))
