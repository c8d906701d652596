"""Certify a pair, or many of a file: open the encoder, read the pictures, judge, write."""

import json
from collections.abc import Iterator
from pathlib import Path

from holdfast.auditing.prepare import check_device
from holdfast.core import Encoder
from holdfast.report.certified_pair import Section, publish, section
from holdfast.runtime.errors import BadValue, Conflict, Failed, Missing
from holdfast.runtime.foreign import foreign
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.option import convert
from holdfast.runtime.privacy import public
from holdfast.sources.encoders import open_encoder
from holdfast.storage.certified_pair import CertifiedPair, FailedPair
from holdfast.storage.entry import as_json
from holdfast.storage.outputs import append_text
from holdfast.workflows.certify.pair import Judged, Question
from holdfast.workflows.certify.pairs import Line, judge_lines, read_known, read_pairs
from holdfast.workflows.certify.pictures import Pictures
from holdfast.workflows.certify.request import CertifyOptions, CertifyRequest

PAGE, LINES = ".html", ".jsonl"
"""How files end that are written: a page, and an answer in each line."""


def certify_files(
    request: CertifyRequest, out: str | None, listener: Listener | None = None, command: str = ""
) -> Iterator[CertifiedPair | FailedPair]:
    """Yield what is known of each pair that a request names; a file gets each answer before the next pair begins.

    Args:
        request: what is asked.
        out: a file that ends with .html, a page of all of them, or .jsonl, a line for each, where those that are there
            already are not judged again; None: nothing is written.
        listener: told what is being done.
        command: asks the same again, for the page.

    Raises:
        HoldfastError: what cannot be asked; one pair alone that cannot be judged.
    """
    listener = listener or Silent()
    # What is wrong with the request is said before anything is opened
    lines, folder = _lines(request)
    if out is not None and not out.endswith((PAGE, LINES)):
        raise BadValue(f"out: expected a file that ends with {PAGE} (a page) or {LINES} (lines), got {out!r}")
    question = Question.read(convert(request, CertifyOptions))
    for line in lines:
        if line.eps:
            Question.read(question.asked, line.eps)
    # Of an earlier run into the same file
    known = read_known(Path(out)) if out is not None and out.endswith(LINES) else {}
    check_device(request.device)
    listener.stage("opening the encoder")
    with foreign(f"encoder {request.encoder!r}", "opened", wrap=True):
        encoder: Encoder = open_encoder(request.encoder).to(request.device)

    # Each answer is written, and told, before the next pair begins
    pictures, shown, failed = Pictures(encoder, request.data), list[Section](), list[FailedPair]()
    for judged in judge_lines(question, encoder, pictures, lines, folder, known, listener):
        answer = judged.answer if isinstance(judged, Judged) else judged
        if isinstance(answer, FailedPair):
            # A pair alone has nobody to go on with
            if request.pairs is None:
                raise Failed(answer.error)
            failed.append(answer)
        # Pixels are kept only where they are drawn
        if isinstance(judged, Judged) and out is not None and out.endswith(PAGE):
            shown.append(section(judged.answer, judged.image, judged.others, judged.found))
        if out is not None and out.endswith(LINES) and not isinstance(judged, CertifiedPair):
            append_text(out, json.dumps(public(as_json(answer)), allow_nan=False) + "\n")
        yield answer
    if out is not None and out.endswith(PAGE):
        publish(out, shown, failed, command)


def _lines(request: CertifyRequest) -> tuple[list[Line], Path]:
    """Return the pairs that a request names, and where relative paths of images begin."""
    if request.pairs is not None:
        if request.image is not None or request.against:
            raise Conflict("pairs: expected no --image and no --against beside it, got both; leave one of them out")
        return read_pairs(Path(request.pairs)), Path(request.pairs).parent
    if request.image is None or not request.against:
        raise Missing(
            "expected an image and one that it must not be nearer to, --image A.png --against B.png, or --pairs FILE"
        )
    return [Line(request.image, request.against)], Path()
