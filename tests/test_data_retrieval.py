"""Retrieval tasks on disk: every layout is one task, samples keep what is relevant, and what is none is refused."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

from holdfast.core import HoldfastError
from holdfast.runtime.errors import Ambiguous, BadData, BadValue, Conflict, Missing, NotEnough, UnknownName
from holdfast.sources.data import ImageSet, open_images
from holdfast.sources.data.digits import Digits
from holdfast.sources.data.retrieval import RetrievalTask
from task_files import IMAGE, Task, columns, png, task, write

SMALL = task()


def saved(it: Task, root: Path) -> Path:
    """Write a `DatasetDict` of the three tables through `save_to_disk`."""
    datasets = pytest.importorskip("datasets")
    tables = {"corpus": columns(it.corpus), "queries": columns(it.queries), "qrels": it.judged()}
    datasets.DatasetDict({name: datasets.Dataset(pa.table(table)) for name, table in tables.items()}).save_to_disk(root)
    return root


def saved_by_split(it: Task, root: Path) -> Path:
    """Write each table as a `DatasetDict` of its splits."""
    datasets = pytest.importorskip("datasets")
    for name, table in (("corpus", columns(it.corpus)), ("queries", columns(it.queries)), ("qrels", it.judged())):
        datasets.DatasetDict({"test": datasets.Dataset(pa.table(table))}).save_to_disk(root / name)
    return root


def converted(it: Task, root: Path) -> Path:
    """Write what the branch refs/convert/parquet holds."""
    for kind, images in (("corpus", it.corpus), ("queries", it.queries)):
        write(root / kind / "test" / "0000.parquet", pa.table(columns(images[:5])))
        write(root / kind / "test" / "0001.parquet", pa.table(columns(images[5:])))
    write(root / "default" / "test" / "0000.parquet", pa.table(it.judged()))
    return root


def splits(it: Task, root: Path) -> Path:
    """Write the tables as splits of one config."""
    for kind, table in (("corpus", columns(it.corpus)), ("queries", columns(it.queries)), ("qrels", it.judged())):
        write(root / "data" / f"{kind}-00000-of-00001.parquet", pa.table(table))
    return root


LAYOUTS: dict[str, Callable[[Task, Path], Path]] = {
    "hub": Task.parquet,
    "hub, qrels": lambda it, root: it.parquet(root, "qrels"),
    "one config of several": lambda it, root: it.parquet(root, "qrels", "en-"),
    "converted": converted,
    "splits": splits,
    "saved": saved,
    "saved by split": saved_by_split,
    "beir": Task.beir,
}


def opened(root: Path, options: str = "", **wanted: Any) -> ImageSet:
    return open_images(f"retrieval:{root}{options}", **wanted)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_layouts_are_one_task(layout: str, tmp_path: Path) -> None:
    usual = opened(SMALL.parquet(tmp_path / "usual"))
    images = opened(LAYOUTS[layout](SMALL, tmp_path / "it"), "?config=en" if layout.startswith("one config") else "")
    assert images.fingerprint == usual.fingerprint
    assert images.ids == usual.ids
    assert images.relevance is not None
    expected = {(q, i): s for q, i, s in SMALL.qrels if s > 0}
    pairs = [[images.ids[place] for place in pair] for pair in images.relevance.pairs.tolist()]
    judged = zip(pairs, images.relevance.grades.tolist(), strict=True)
    assert {(q.removeprefix("queries/"), i.removeprefix("corpus/")): s for (q, i), s in judged} == expected
    assert torch.equal(images.batch(0, 52), usual.batch(0, 52))


def test_pictures_are_those_of_their_ids(tmp_path: Path) -> None:
    images = opened(SMALL.parquet(tmp_path))
    bytes_of = {f"queries/{name}": it for name, it in SMALL.queries} | {f"corpus/{n}": it for n, it in SMALL.corpus}
    for place, name in enumerate(images.ids):
        number = next(i for i in range(60) if png(i) == bytes_of[name])
        assert (images.batch(place, place + 1)[0] - Digits("all").load(number)).abs().max() < 0.003


@pytest.mark.parametrize("seed", [0, 3])
def test_a_sample_has_its_queries_first_and_all_that_is_relevant_to_them(seed: int, tmp_path: Path) -> None:
    root = SMALL.parquet(tmp_path)
    whole, images = opened(root, seed=seed), opened(root, seed=seed, images=30, queries=4)
    queries = [name for name in images.ids if name.startswith("queries/")]
    assert len(images) == 30
    assert images.ids[:4] == queries == whole.ids[:4]
    wanted = {f"corpus/{i}" for q, i, s in SMALL.qrels if s > 0 and f"queries/{q}" in queries}
    assert set(images.ids[4 : 4 + len(wanted)]) == wanted
    images.check_relevance("it")
    assert images.relevance is not None
    assert images.relevance.missing == 0
    assert images.relevance.corpus == 40
    assert len(images.relevance.pairs) == sum(s > 0 and f"queries/{q}" in queries for q, _, s in SMALL.qrels)
    few = opened(root, seed=seed, images=2 + len(wanted), queries=4)
    with pytest.raises(NotEnough, match=f"--attacked 4 --images {4 + len(wanted)}"):
        few.check_relevance("it")


def test_as_many_queries_are_chosen_as_leave_half_of_the_images_to_others(tmp_path: Path) -> None:
    images = opened(SMALL.parquet(tmp_path), images=32)
    order = opened(tmp_path).ids[:12]
    needed = [
        len({i for q, i, s in SMALL.qrels if s > 0 and f"queries/{q}" in order[:count]}) + count for count in range(13)
    ]
    count = max(count for count in range(13) if needed[count] <= 16) // 2 * 2
    assert images.queries == count > 0
    assert images.ids[:count] == order[:count]
    images.check_relevance("it")
    assert opened(tmp_path, queries=12).queries == opened(tmp_path).queries == 12
    assert opened(tmp_path, images=4).queries == 2  # which are too many, as the check says
    with pytest.raises(NotEnough, match="--attacked 2"):
        opened(tmp_path, images=4).check_relevance("it")


def test_the_choice_does_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    turned = SMALL.changed(corpus=SMALL.corpus[::-1], queries=SMALL.queries[::-1], qrels=SMALL.qrels[::-1])
    images, again = (
        opened(it.parquet(tmp_path / str(i)), images=25, queries=4) for i, it in enumerate((SMALL, turned))
    )
    assert images.ids == again.ids
    assert images.fingerprint == again.fingerprint


def test_judgments_are_part_of_the_data(tmp_path: Path) -> None:
    (query, image, score), *others = SMALL.qrels
    changed = SMALL.changed(qrels=[(query, image, score + 1), *others])
    prints = {opened(it.parquet(tmp_path / str(i))).fingerprint for i, it in enumerate((SMALL, changed))}
    assert len({*prints, opened(tmp_path / "0", "?skip_own=true").fingerprint}) == 3


def test_queries_that_are_in_the_corpus_are_known_by_their_content(tmp_path: Path) -> None:
    images = opened(SMALL.parquet(tmp_path), "?skip_own=true")
    relevance, again = images.relevance, opened(tmp_path, "?skip_own=true")
    assert relevance is not None
    own = {(images.ids[query], images.ids[image]) for query, image in relevance.own.tolist()}
    assert own == {("queries/000", "corpus/000"), ("queries/001", "corpus/001")}
    for query, image in relevance.own.tolist():
        assert relevance.grade_images(torch.tensor([query]))[0, image] == -1
    again.recall(images.selection)  # as other processes do, which do not read all images
    assert again.relevance is not None
    assert torch.equal(again.relevance.own, relevance.own)


def test_queries_of_which_nothing_is_relevant_are_left_out_and_told(tmp_path: Path) -> None:
    lost = SMALL.queries[0][0]
    images = opened(SMALL.changed(qrels=[row for row in SMALL.qrels if row[0] != lost]).parquet(tmp_path))
    assert f"queries/{lost}" not in images.ids
    assert "11 queries, 1 more without a relevant image left out, 40 images in the corpus" in str(images)


def test_splits_are_chosen_by_the_judgments(tmp_path: Path) -> None:
    SMALL.parquet(tmp_path)
    write(tmp_path / "data" / "dev-00000-of-00001.parquet", pa.table(SMALL.changed(qrels=SMALL.qrels[:9]).judged()))
    write(tmp_path / "corpus" / "other.parquet", pa.table(columns(SMALL.corpus)))
    with pytest.raises(UnknownName, match="dev"):
        opened(tmp_path, "?split=dev")
    (tmp_path / "corpus" / "other.parquet").unlink()
    assert "(test)" in str(opened(tmp_path))
    assert len(opened(tmp_path, "?split=dev").relevance.pairs) < 9  # pyright: ignore[reportOptionalMemberAccess]


def test_tasks_are_sent_to_other_processes(tmp_path: Path) -> None:
    source = RetrievalTask(SMALL.parquet(tmp_path))
    assert ImageSet(pickle.loads(pickle.dumps(source))).fingerprint == ImageSet(source).fingerprint


@pytest.mark.parametrize("option", ["skip_corrupt", "skip_duplicates"])
def test_no_image_of_a_task_is_skipped(option: str, tmp_path: Path) -> None:
    with pytest.raises(Conflict, match=f"got {option}"):
        opened(SMALL.parquet(tmp_path), **{option: True})


def lines(root: Path, kind: str, change: Callable[[dict[str, Any]], None]) -> None:
    file = root / f"{kind}.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        change(row)
    file.write_text("\n".join(map(json.dumps, rows)))


def tsv(root: Path, *rows: str, header: str = "query-id\tcorpus-id\tscore") -> None:
    (root / "qrels" / "test.tsv").write_text("\n".join([header, *rows]))


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no corpus": (lambda root: (root / "corpus.jsonl").unlink(), "expected the table corpus, got qrels, queries"),
    "no qrels": (lambda root: (root / "qrels" / "test.tsv").unlink(), "expected the table qrels"),
    "empty corpus": (lambda root: (root / "corpus.jsonl").write_text(""), "expected rows in its corpus, got none"),
    "empty qrels": (lambda root: (root / "qrels" / "test.tsv").write_text(""), "expected the column query-id"),
    "header alone": (tsv, "expected at least 2 queries to which an image is relevant, got 0 in 0 qrels"),
    "unknown query": (lambda root: tsv(root, "x\t001\t1"), "about its queries, got the unknown id 'x'"),
    "unknown image": (lambda root: tsv(root, "001\tx\t1"), "about its corpus, got the unknown id 'x'"),
    "no number": (lambda root: tsv(root, "001\t002\tgood"), "a whole number as the score .* got 'good'"),
    "a fraction": (lambda root: tsv(root, "001\t002\t0.5"), "a whole number as the score .* got '0.5'"),
    "not finite": (lambda root: tsv(root, "001\t002\tinf"), "a whole number as the score .* got 'inf'"),
    "two scores": (lambda root: tsv(root, "001\t002\t1", "001\t002\t2"), "got two scores"),
    "nothing relevant": (lambda root: tsv(root, "001\t002\t0"), "got 0 in 1 qrels"),
    "one query": (lambda root: tsv(root, "001\t002\t1"), "got 1 in 1 qrels"),
    "a short line": (lambda root: tsv(root, "001\t002"), "line 2: expected 3 values"),
    "no header": (lambda root: tsv(root, header="001\t0\t002\t1"), "the column query-id in its qrels, got 001"),
    "no JSON": (lambda root: (root / "queries.jsonl").write_text("{"), "line 1: expected a JSON object"),
    "no ids": (lambda root: lines(root, "corpus", lambda row: row.pop("_id")), "expected the column id or _id"),
    "one id": (lambda root: lines(root, "corpus", lambda row: row.update(_id="1")), "got '1' more than once"),
    "null": (lambda root: lines(root, "queries", lambda row: row.update(_id=None)), "id of its own .* got none"),
    "texts": (lambda root: lines(root, "corpus", lambda row: row.pop("image")), "column image in its corpus, .* text"),
    "text queries": (lambda root: lines(root, "queries", lambda row: row.pop("image")), "caption_retrieval"),
    "both": (lambda root: lines(root, "queries", lambda row: row.update(text="in red")), "got the text 'in red'"),
    "a modality": (lambda root: lines(root, "corpus", lambda row: row.update(modality="text")), "the modality 'text'"),
    "reranking": (lambda root: (root / "top_ranked.jsonl").write_text("{}"), "got the table top_ranked"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_tables_that_are_none_are_refused(what: str, tmp_path: Path) -> None:
    change, message = BROKEN[what]
    root = SMALL.beir(tmp_path / "it")
    change(root)
    with pytest.raises(HoldfastError, match=message) as raised:
        opened(root)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ("?split=tset", UnknownName, r"'test'\?"),
        ("?config=de", UnknownName, "de"),
        ("?text=no", BadValue, "text"),
        ("?skip_own=maybe", BadValue, "true"),
        ("?column=image", UnknownName, "column"),
    ],
)
def test_options_that_are_none_are_refused(
    options: str, kind: type[HoldfastError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        opened(SMALL.parquet(tmp_path), options)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="nowhere"):
        opened(tmp_path / "nowhere")
    with pytest.raises(Missing, match="corpus"):
        opened(tmp_path)
    root = SMALL.parquet(tmp_path / "it")
    broken = root / "queries" / "test-00000-of-00002.parquet"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:100])
    with pytest.raises(BadData, match="test-00000-of-00002"):
        opened(root)
    write(broken, pa.table({"label": [1, 2]}))
    with pytest.raises(BadData, match=r"test-00000-of-00002\.parquet"):
        opened(root)
    write(root / "data" / "test-00000-of-00001.parquet", pa.table({"label": [1, 2]}))
    broken.write_bytes(whole)
    with pytest.raises(BadData, match="query-id"):
        opened(root)
    (root / "data" / "test-00000-of-00001.parquet").unlink()
    SMALL.parquet(root, "qrels", "en-")
    with pytest.raises(Missing, match="qrels"):
        opened(root)
    for file in (*(root / "corpus").glob("*"), *(root / "queries").glob("*")):
        file.unlink()
    with pytest.raises(Ambiguous, match=r"\?config="):
        opened(root)


@pytest.mark.parametrize("value", [b"no picture", b"", None])
def test_pictures_that_are_none_are_refused(value: bytes | None, tmp_path: Path) -> None:
    (name, _), *others = SMALL.corpus
    images = opened(SMALL.changed(corpus=[(name, value), *others]).parquet(tmp_path))
    with pytest.raises(BadData, match="corpus/000"):
        images.fingerprint  # noqa: B018


@pytest.mark.parametrize(
    ("path", "message"),
    [("/etc/x.png", "inside the folder"), ("../x.png", "inside the folder"), ("nowhere.png", "No such file")],
)
def test_paths_lead_to_files_of_the_task(path: str, message: str, tmp_path: Path) -> None:
    root = SMALL.beir(tmp_path / "it")
    lines(root, "corpus", lambda row: row.update(image=path if row["_id"] == "007" else row["image"]))
    with pytest.raises(BadData, match=rf"'corpus/007'.*{message}"):
        opened(root).fingerprint  # noqa: B018


def test_pictures_of_hugging_face_may_be_files(tmp_path: Path) -> None:
    """Where the bytes were not embedded, the path leads to them."""
    beir, root = SMALL.beir(tmp_path / "beir"), SMALL.parquet(tmp_path / "it")
    (beir / "images").rename(root / "images")
    for kind, images in (("corpus", SMALL.corpus), ("queries", SMALL.queries)):
        for file in (root / kind).glob("*"):
            file.unlink()
        pictures = pa.array([{"bytes": None, "path": f"{kind}-{name}.png"} for name, _ in images], IMAGE)
        write(root / kind / "test.parquet", pa.table({"id": [name for name, _ in images], "image": pictures}))
    assert opened(root).fingerprint == opened(SMALL.parquet(tmp_path / "usual")).fingerprint


def test_lists_of_pictures_are_refused(tmp_path: Path) -> None:
    root = SMALL.parquet(tmp_path)
    for file in (root / "corpus").glob("*"):
        file.unlink()
    table = columns(SMALL.corpus)
    write(root / "corpus" / "test.parquet", pa.table({"id": table["id"], "image": [[png] for _, png in SMALL.corpus]}))
    with pytest.raises(BadData, match="list"):
        opened(root).fingerprint  # noqa: B018


def test_texts_are_ignored_where_that_is_asked_for(tmp_path: Path) -> None:
    root = SMALL.beir(tmp_path / "it")
    lines(root, "queries", lambda row: row.update(text="in red", modality="image,text"))
    assert len(opened(root, "?text=ignore")) == 52
