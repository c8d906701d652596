"""Pairs in a file: image, others, ε; judged one by one, each written when it is known."""

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.core import Encoder, HoldfastError, Images
from holdfast.core.registry import spec
from holdfast.runtime.doors import read_list
from holdfast.runtime.errors import BadData, UnreadableRecord, os_reason
from holdfast.runtime.foreign import foreign
from holdfast.runtime.listener import Listener
from holdfast.storage.certified_pair import CertifiedPair, FailedPair
from holdfast.storage.entry import read_json
from holdfast.storage.outputs import write_text
from holdfast.storage.run_folder import digest
from holdfast.workflows.certify.pair import Judged, Question, judge
from holdfast.workflows.certify.pictures import Pictures

HEAD = ["image", "against", "eps"]
SEVERAL = ";"
"""What stands between several others, or several ε, of one line."""


@dataclass(frozen=True)
class Line:
    """A pair by its names.

    Attributes:
        image: the image.
        against: the others.
        eps: at which verdicts are asked for; none: what is asked of all pairs.
    """

    image: str
    against: tuple[str, ...]
    eps: tuple[str, ...] = ()


def read_pairs(path: Path) -> list[Line]:
    """Return the pairs of a CSV file: image,against or image,against,eps, with or without a first line that says so."""
    try:
        lines = csv.reader(io.StringIO(read_list(path, "utf-8-sig")))
        rows = [(number, [cell.strip() for cell in row]) for number, row in enumerate(lines, 1) if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadData(f"pairs: cannot read {str(path)!r}: {os_reason(error)}; give a CSV file") from error
    # With or without a head
    if rows and rows[0][1] in (HEAD, HEAD[:2]):
        rows = rows[1:]
    if not rows:
        raise BadData(f"pairs: expected at least one in {str(path)!r}, got none")
    return [_line(number, row) for number, row in rows]


def _line(number: int, row: list[str]) -> Line:
    # What is missing is empty, and what is too much is refused
    image, against, eps = (*row, "", "")[:3]
    several = tuple(filter(None, (name.strip() for name in against.split(SEVERAL))))
    if len(row) > 3 or not image or not several:
        raise BadData(f"pairs, line {number}: expected image,against or image,against,eps, got {','.join(row)!r}")
    return Line(image, several, tuple(filter(None, (one.strip() for one in eps.split(SEVERAL)))))


def judge_lines(
    question: Question,
    encoder: Encoder,
    pictures: Pictures,
    lines: Sequence[Line],
    folder: Path,
    known: Mapping[str, CertifiedPair],
    listener: Listener,
) -> Iterator[Judged | CertifiedPair | FailedPair]:
    """Yield what is known of each pair; of one that fails, why; of one that is known already, that.

    Args:
        question: what is asked.
        encoder: the encoder.
        pictures: where the images come from.
        lines: the pairs.
        folder: where relative paths of images begin.
        known: answers that are there already, by their keys.
        listener: told what is being done.
    """
    for line in lines:
        # Whatever goes wrong with one pair is told of it, and the next is judged
        names = (line.image, *line.against)
        try:
            with foreign(f"the pair of {line.image!r}", "judged", wrap=True):
                images = pictures.read(names, folder)
                asked = question if not line.eps else Question.read(question.asked, line.eps)
                key = key_of(asked, encoder, images, names)
                yield known[key] if key in known else judge(asked, encoder, images, names, listener, key)
        except HoldfastError as error:
            yield FailedPair(image=line.image, against=list(line.against), error=str(error), error_code=error.code)


def key_of(question: Question, encoder: Encoder, images: Images, names: Sequence[str]) -> str:
    """Return what decides an answer: the encoder, the pixels, their names, and all that is asked."""
    # ε as radii, for 4/255 is as good as 0.0157; where it was computed changes nothing
    asked = asdict(replace(question.asked, eps=None, device=None))
    radii = [ball.radius for ball in question.balls]
    # The pixels and not the files: a picture that was replaced is another one
    pixels = hashlib.sha256(images.contiguous().numpy().tobytes()).hexdigest()
    return digest([encoder.fingerprint, pixels, list(names), radii, {k: _plain(v) for k, v in asked.items()}])


def _plain(value: Any) -> Any:
    """Return what was asked as text: a part by its fields."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if isinstance(value, (str, int, float)) or value is None else str(spec(value))


def read_known(path: Path) -> dict[str, CertifiedPair]:
    """Return the answers of a file with one in each line, by their keys, and leave these alone in it.

    Pairs that failed are judged again, and so is one of which a command that was killed wrote half a line.
    """
    try:
        lines = [text for text in read_list(path, "utf-8").splitlines() if text.strip()]
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableRecord(f"cannot read {str(path)!r}: {os_reason(error)}; choose another --out") from error
    answers, kept = {}, []
    for number, text in enumerate(lines, 1):
        try:
            answer = _read_answer(text)
        except (ValueError, TypeError, RecursionError) as error:
            if number < len(lines):  # only the last may be half of one
                raise UnreadableRecord(
                    f"{str(path)!r}, line {number}: expected an answer of holdfast certify, got something else; choose "
                    "another --out"
                ) from error
            continue
        if answer is not None:
            answers[answer.key] = answer
            kept.append(text)
    # What is appended must begin on a line of its own
    if kept != lines:
        write_text(str(path), "".join(f"{text}\n" for text in kept))
    return answers


def _read_answer(text: str) -> CertifiedPair | None:
    """Return the answer of a line; None of a pair that failed."""
    data = json.loads(text)
    # Lines of earlier versions say no kind
    if isinstance(data, dict) and data.keys() - {"error_code"} == {"image", "against", "error"}:
        return None
    return read_json(data, CertifiedPair)
