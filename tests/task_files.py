"""A small retrieval task of digits, and how MTEB and BEIR keep such tasks on disk."""

import io
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.sources.data.digits import Digits

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


@dataclass(frozen=True)
class Task:
    """A task in memory: (id, PNG) of each image, and (query, image, score)."""

    corpus: list[tuple[str, bytes]]
    queries: list[tuple[str, bytes]]
    qrels: list[tuple[str, str, int]]
    more: dict[str, Any] = field(default_factory=dict)

    def parquet(self, root: Path, qrels: str = "data", prefix: str = "", rows: int = 7) -> Path:
        """Write what `push_to_hub` writes: a folder for each config, the judgments in `data` as the default one."""
        for kind, images in (("corpus", self.corpus), ("queries", self.queries)):
            half = len(images) // 2
            for shard, some in enumerate((images[:half], images[half:])):
                table = columns(some) | {name: values[: len(some)] for name, values in self.more.items()}
                write(root / f"{prefix}{kind}/test-{shard:05d}-of-00002.parquet", pa.table(table), rows)
        write(root / f"{prefix}{qrels}/test-00000-of-00001.parquet", pa.table(self.judged()), rows)
        return root

    def judged(self) -> dict[str, Any]:
        query, image, score = zip(*self.qrels, strict=True) if self.qrels else ([], [], [])
        return {"query-id": list(query), "corpus-id": list(image), "score": list(score)}

    def beir(self, root: Path) -> Path:
        """Write JSON lines, TSV, and a folder of images."""
        (root / "images").mkdir(parents=True)
        (root / "qrels").mkdir()
        for kind, images in (("corpus", self.corpus), ("queries", self.queries)):
            lines = [json.dumps({"_id": name, "image": f"{kind}-{name}.png", "text": ""}) for name, _ in images]
            (root / f"{kind}.jsonl").write_text("\n".join(lines) + "\n")
            for name, png in images:
                (root / "images" / f"{kind}-{name}.png").write_bytes(png)
        rows = ["\t".join(map(str, row)) for row in self.qrels]
        (root / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n")
        return root

    def changed(self, **fields: Any) -> "Task":
        return replace(self, **fields)


def columns(images: list[tuple[str, bytes]]) -> dict[str, Any]:
    pictures = pa.array([{"bytes": png, "path": None} for _, png in images], IMAGE)
    return {"id": [name for name, _ in images], "image": pictures}


def write(file: Path, table: pa.Table, rows: int = 7) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file, row_group_size=rows)


def png(number: int) -> bytes:
    pixels, buffer = Digits("all").load(number)[0], io.BytesIO()
    PIL.Image.fromarray((pixels.numpy() * 255).round().astype(np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def task(queries: int = 12, corpus: int = 40, copies: int = 2, seed: int = 0) -> Task:
    """Return digits that search digits of their class, with grades 0 to 3; the first ones are in the corpus too."""
    random, digits = np.random.default_rng(seed), Digits("all")
    images = [(f"{i:03d}", i) for i in range(corpus)]
    searching = [(f"{i:03d}", i if i < copies else corpus + i) for i in range(queries)]
    qrels: list[tuple[str, str, int]] = []
    for query, i in searching:
        alike = [name for name, j in images if digits.label(j) == digits.label(i)]
        scores = [3, *(int(score) for score in random.integers(0, 4, len(alike) - 1))]
        qrels += [(query, name, score) for name, score in zip(random.permutation(alike).tolist(), scores, strict=True)]
    return Task(
        [(name, png(i)) for name, i in images],
        [(name, png(i)) for name, i in searching],
        random.permutation(np.array(qrels, dtype=object)).tolist(),
    )
