"""holdfast report: what a run folder holds."""

from typing import Annotated

import typer

from holdfast.cli.common import JsonOption, show
from holdfast.runtime.errors import Missing
from holdfast.runtime.privacy import brief


def report(
    folder: Annotated[str, typer.Argument(help="Run folder of an audit.")],
    no_pictures: Annotated[
        bool, typer.Option("--no-pictures", help="Leave out pictures of images, for readers who may not see these.")
    ] = False,
    model_card: Annotated[
        str | None,
        typer.Option(help="Write a section of a model card (Markdown), with metadata for the Hub and a figure beside."),
    ] = None,
    evidence: Annotated[
        str | None,
        typer.Option(
            help="Write what was tested, by what, what holds, and which requirements ask for it (.md, .json)."
        ),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Whose card or evidence, where there are several encoders.")
    ] = None,
    mteb: Annotated[str | None, typer.Option(help="Write the scores as a results folder of MTEB.")] = None,
    cite: Annotated[
        str | None, typer.Option(help="Write BibTeX of Holdfast and of the papers behind the scores.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Print the summary of a run folder again, and rewrite its report."""
    from holdfast.comparison.records import open_run
    from holdfast.report.document import ToCopy
    from holdfast.report.documents.audit import document
    from holdfast.report.html import publish
    from holdfast.storage.record_file import run_files

    if encoder is not None and model_card is None and evidence is None:
        raise Missing("--encoder: expected --model-card as well, or --evidence, whose encoder it names")
    run = open_run(folder)
    places: list[str] = []
    if model_card is not None:
        from holdfast.report.model_card import write_model_card

        places += write_model_card(run.record, run_files(run.folder, run.record), model_card, encoder)
    if evidence is not None:
        from holdfast.report.evidence import write_evidence

        write_evidence(run.record, evidence, encoder)
        places.append(evidence)
    if mteb is not None:
        from holdfast.comparison.mteb_results import write_mteb_results  # which brings torch

        write_mteb_results(run, mteb)
        places.append(mteb)
    if cite is not None:
        from holdfast.report.bibliography import cite as find_citations
        from holdfast.storage.outputs import write_text

        write_text(cite, find_citations(run.record))
        places.append(cite)
    written = publish(folder, with_pictures=not no_pictures)
    shown = [*document(run.record, brief(written)), *(ToCopy({"written": brief(place)}) for place in places)]
    show(run.record, json_output, lambda: shown)
