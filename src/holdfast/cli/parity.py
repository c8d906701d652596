"""holdfast parity: whether two builds of one network are still the same encoder."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.common import JsonOption, QuietOption
from holdfast.cli.compare_index import OverwriteOption, compare
from holdfast.cli.options import Given, asks
from holdfast.storage.filesystem import local_folder
from holdfast.workflows.compare_index.request import IndexRequest


@asks(IndexRequest, without=("same",))
def parity(
    given: Given,
    out_folder: Annotated[
        Path, typer.Option("--out", parser=local_folder, help="Folder: record, representations, report.")
    ] = Path("holdfast-parity"),
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say whether a build is still the same encoder: float and int8, torch and ONNX Runtime, two services.

    The same as compare-index --same: neighbours, cosines, disturbed images, and what makes the two differ.
    """
    compare({**given, "same": True}, out_folder, overwrite, json_output, quiet)
