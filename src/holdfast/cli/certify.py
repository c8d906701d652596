"""holdfast certify: one image against others that somebody names."""

from functools import partial
from typing import Annotated

import typer

from holdfast.cli.common import JsonOption, QuietOption, brief, command_line, listening, partly, show
from holdfast.cli.options import Given, asks
from holdfast.workflows.certify.request import CertifyRequest


@asks(CertifyRequest)
def certify(
    given: Given,
    place: Annotated[
        str | None,
        typer.Option("--out", help="A page of it, FILE.html; of --pairs also FILE.jsonl, where it goes on."),
    ] = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Prove how far an image can change and stay nearer to itself than to another one; and find what breaks it.

    With --pairs each answer is a line as soon as it is known; exit status 1 where a pair fails.
    """
    from holdfast.report.documents.certified_pair import document, line
    from holdfast.storage.certified_pair import FailedPair
    from holdfast.workflows.certify.run import certify_files

    request, answers = CertifyRequest(**given), []
    with listening(quiet) as bars:
        for one in certify_files(request, place, bars, command_line()):
            answers.append(one)
            if request.pairs is not None:
                show(one, json_output, partial(line, one))
    if request.pairs is None:
        shown = brief(place) if place is not None else None
        show(answers[0], json_output, lambda: document(answers[0], shown))
    failures = [one for one in answers if isinstance(one, FailedPair)]
    partly(failures, len(failures) < len(answers))
