"""Retrieval tasks as MTEB and BEIR keep them: images of a corpus, image queries, and which answers which."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import PIL.Image
import torch
from typing_extensions import override

from holdfast.core import ImageSource, Relevance
from holdfast.core.data_source import DataSource
from holdfast.core.source_spec import Options, boolean, finish, one_of, take
from holdfast.runtime.errors import BadData, NotEnough, Unsupported
from holdfast.sources.data.shared.pictures import decode, shape_in
from holdfast.sources.data.shared.tables import Table
from holdfast.sources.data.shared.task_files import open_task

IDS = {"corpus": ("id", "_id", "corpus-id"), "queries": ("id", "_id", "query-id")}
"""What the column of ids may be called."""

JUDGMENT = ("query-id", "corpus-id", "score")

IMAGE, TEXTS, MODALITY = "image", ("text", "title"), "modality"


@dataclass(frozen=True)
class RetrievalSource(DataSource):
    """Retrieval tasks as MTEB and BEIR keep them: image queries, a corpus, and which answers which."""

    about = "retrieval task (MTEB, BEIR), retrieval:FOLDER?split=test&config=&skip_own=true&text=ignore"

    def open(self, name: str, options: Options) -> "RetrievalTask":
        """Open `retrieval:FOLDER?split=test`."""
        split, config = take(options, "split", str, None), take(options, "config", str, None)
        skip_own = take(options, "skip_own", boolean, False)
        ignore_text = take(options, "text", one_of("ignore"), None) is not None
        finish(options)
        return RetrievalTask(name, split=split, config=config, skip_own=skip_own, ignore_text=ignore_text)


class RetrievalTask(ImageSource):
    """The queries and the corpus of an image retrieval task on disk; ids are queries/ID and corpus/ID.

    Tables are `corpus` and `queries` (id, image) and `qrels` (query-id, corpus-id, score), as folders of Parquet files,
    of `save_to_disk`, or as JSON lines and TSV. An image is encoded bytes, Hugging Face's {bytes, path}, or the path of
    a file below the folder, or below its folder `images`. Queries without a relevant image are left out.

    Args:
        path: the folder.
        split: see `open_task`.
        config: see `open_task`.
        skip_own: leave out of a query's index what is the same image, pixel by pixel.
        ignore_text: whether images may have a text, which is then not read.

    Attributes:
        unjudged: how many queries were left out.

    Raises:
        HoldfastError: tables that are missing, empty or of another kind, ids that are unknown or not unique, scores
            that are no whole numbers, or a task with texts.
    """

    concurrent = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        split: str | None = None,
        config: str | None = None,
        skip_own: bool = False,
        ignore_text: bool = False,
    ):
        self.path = Path(path)
        corpus, queries, qrels, self.split = open_task(self.path, split, config)
        row_of_image, row_of_query = self._ids("corpus", corpus), self._ids("queries", queries)
        judged = self._judgments(qrels, row_of_query, row_of_image)
        # Queries without a relevant image cannot be scored, and are left out
        rows = sorted({query for query, _ in judged})
        if len(rows) < 2:
            raise NotEnough(
                f"{self._name}: expected at least 2 queries to which an image is relevant, got {len(rows)} in "
                f"{len(qrels)} qrels; repair {qrels.files[0].name}, or choose another split"
            )
        self.unjudged = len(row_of_query) - len(rows)
        self._tables, self._rows = (queries, corpus), (rows, range(len(corpus)))
        for kind, table, used in zip(("queries", "corpus"), self._tables, self._rows, strict=True):
            self._check(kind, table, used, ignore_text)
        # Queries first, then the corpus: the places that `Relevance` counts in
        names = list(row_of_query)
        self._names = [f"queries/{names[row]}" for row in rows] + [f"corpus/{name}" for name in row_of_image]
        place = {row: number for number, row in enumerate(rows)}
        self.relevance = Relevance(
            # [images]: which of them are queries
            torch.arange(len(self._names)) < len(rows),
            # [pairs, 2]: places of a query and of an image that is relevant to it
            torch.tensor([(place[query], len(rows) + image) for query, image in judged]),
            torch.tensor(list(judged.values())),
            len(corpus),
            skip_own,
        )

    def __len__(self) -> int:
        return len(self._names)

    def __str__(self) -> str:
        left = f", {self.unjudged} more without a relevant image left out" if self.unjudged else ""
        count = len(self) - len(self._rows[1])
        return f"{self._name}: {count} queries{left}, {len(self._rows[1])} images in the corpus"

    def id(self, index: int) -> str:
        """Return "queries/" or "corpus/" and the id in the task."""
        return self._names[index]

    @override
    def load(self, index: int) -> PIL.Image.Image:
        return decode(self._file(index), self.id(index))

    def shape(self, index: int) -> tuple[int, int, int]:
        """Return the shape of the picture, which is not decoded for it."""
        return shape_in(self._file(index))

    @property
    def _name(self) -> str:
        split = f" ({self.split})" if getattr(self, "split", "") else ""
        return f"retrieval task {self.path.name or self.path}{split}"

    def _file(self, index: int) -> Path | BytesIO:
        """Return what holds a picture: its bytes, or a file."""
        kind = int(index >= len(self._rows[0]))  # 0: a query, 1: of the corpus
        value = self._tables[kind].cell(IMAGE, self._rows[kind][index - kind * len(self._rows[0])])
        if isinstance(value, dict):  # Hugging Face's images
            value = value.get("path") if value.get("bytes") is None else value["bytes"]
        if isinstance(value, bytes):
            return BytesIO(value)
        if not isinstance(value, str) or not value:
            got = "none" if value is None or value == "" else type(value).__name__
            raise BadData(
                f"cannot read image {self.id(index)!r} of {self._name} (expected encoded bytes or the path of a file, "
                f"got {got}); repair it, or take another task where it is a text"
            )
        # A table of somebody else's must not read files outside its folder
        if Path(value).is_absolute() or ".." in Path(value).parts:
            raise BadData(
                f"cannot read image {self.id(index)!r} of {self._name} (expected a path inside the folder of the task, "
                f"got {value!r}); put the file there"
            )
        beside = self.path / "images" / value
        return beside if beside.is_file() else self.path / value

    def _ids(self, kind: str, table: Table) -> dict[str, int]:
        """Return the row of each id of a table."""
        column = next((name for name in IDS[kind] if name in table.columns), None)
        if not len(table):
            raise BadData(f"{self._name}: expected rows in its {kind}, got none in {table.files[0].name}")
        if column is None:
            raise self._lacks(kind, table, " or ".join(IDS[kind]))
        rows: dict[str, int] = {}
        for row, value in enumerate(table.column(column)):
            # Ids are compared as texts, whatever type the column has
            if value is None or (name := str(value)) in rows:
                got = "none" if value is None else f"{value!r} more than once"
                raise BadData(
                    f"{self._name}: expected an id of its own for each of its {kind}, got {got}; repair row {row}"
                )
            rows[name] = row
        return rows

    def _judgments(self, qrels: Table, queries: dict[str, int], corpus: dict[str, int]) -> dict[tuple[int, int], int]:
        """Return the grades of what is relevant, by rows of queries and of the corpus."""
        if absent := [name for name in JUDGMENT if name not in qrels.columns]:
            raise self._lacks("qrels", qrels, absent[0])
        grades: dict[tuple[int, int], int] = {}
        for query, image, score in zip(*map(qrels.column, JUDGMENT), strict=True):
            for kind, name, known in (("queries", query, queries), ("corpus", image, corpus)):
                if str(name) not in known:
                    raise BadData(
                        f"{self._name}: expected qrels about its {kind}, got the unknown id {str(name)!r}; repair "
                        f"{qrels.files[0].name}, or choose another split or config"
                    )
            pair, grade = (queries[str(query)], corpus[str(image)]), _whole(score)
            # A pair may be there twice with one score
            if grade is None or grades.setdefault(pair, grade) != grade:
                got = "two scores" if grade is not None else f"{score!r}"
                raise BadData(
                    f"{self._name}: expected a whole number as the score of {str(query)!r} and {str(image)!r}, got "
                    f"{got}; repair {qrels.files[0].name}"
                )
        # A score of 0 says that the image was judged, and is not relevant
        return {pair: grade for pair, grade in grades.items() if grade > 0}

    def _check(self, kind: str, table: Table, rows: Sequence[int], ignore_text: bool) -> None:
        """Refuse what is not searched, or found, by its image alone."""
        if IMAGE not in table.columns:
            raise self._lacks(kind, table, IMAGE)
        modality = table.column(MODALITY) if MODALITY in table.columns else [IMAGE] * len(table)
        texts = [table.column(name) for name in TEXTS if name in table.columns]
        # Only rows that are used: the others may be texts
        for row in rows:
            text = next((column[row] for column in texts if column[row]), None)
            if IMAGE not in str(modality[row]) or (text and not ignore_text):
                got = f"the text {str(text)[:60]!r}" if text else f"the modality {modality[row]!r}"
                raise Unsupported(
                    f"{self._name}: expected {kind} that are images alone, got {got} in row {row}; take another task, "
                    "or add ?text=ignore where each has an image that may be searched without its text"
                )

    def _lacks(self, kind: str, table: Table, column: str) -> BadData:
        advice = "it is a table of another kind"
        if column == IMAGE and any(name in table.columns for name in TEXTS):
            advice = f"{kind} of texts cannot be attacked as images; for captions see the measure caption_retrieval"
        return BadData(
            f"{self._name}: expected the column {column} in its {kind}, got {', '.join(table.columns) or 'no column'} "
            f"in {table.files[0].name}; {advice}"
        )


def _whole(score: Any) -> int | None:
    """Return a score as a whole number; None where it is none."""
    try:
        value = float(score)
    except (TypeError, ValueError):
        return None
    return int(value) if math.isfinite(value) and value == int(value) else None
