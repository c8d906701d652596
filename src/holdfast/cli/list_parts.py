"""holdfast list: what there is."""

from typing import Annotated

import typer

from holdfast.cli.common import JsonOption, show
from holdfast.runtime.errors import unknown


def list_parts(
    kind: Annotated[str | None, typer.Argument(help="encoders, data, vectors, profiles, or a kind of part.")] = None,
    json_output: JsonOption = False,
) -> None:
    """List encoders, data, threats, attacks, certifiers, measures, checks, profiles and more."""
    from holdfast.report.documents.catalogue import document

    if kind == "profiles":  # which are read at once, without the parts that they name
        from holdfast.auditing.profile_files import descriptions

        parts = {kind: descriptions()}
    else:
        from holdfast.report.parts import LISTED, catalogue

        if kind is not None and kind not in LISTED:
            raise unknown("kind", kind, LISTED)
        parts = catalogue([kind] if kind else LISTED)
    show(parts, json_output, lambda: document({name: [*entries.items()] for name, entries in parts.items()}))
