"""Where a retrieval task keeps its three tables: corpus, queries and judgments (qrels)."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.runtime.doors import read_bytes
from holdfast.runtime.errors import Ambiguous, BadData, Missing, Unsupported, unknown
from holdfast.runtime.guess import path_meant
from holdfast.sources.data.shared.tables import SUFFIXES, Table, open_table
from holdfast.storage.documents import parse_json

KINDS = {"corpus": ("corpus",), "queries": ("queries", "query"), "qrels": ("qrels", "default", "data")}
"""Each table and what its folder or file may be called; the first one that is there is read."""

OTHERS = {"top_ranked": "of what each query reranks", "instruction": "of texts that queries have beside the image"}
"""Tables that make it another task, and what is in them."""

USUAL = ("test", "validation", "dev")

LAYOUTS = "corpus/, queries/ and qrels/ (or data/) with Parquet files or save_to_disk, or BEIR's .jsonl and qrels/*.tsv"

_NAMES = "|".join([*(name for names in KINDS.values() for name in names), *OTHERS])
_TABLE = re.compile(rf"(?:data/)?(?:(?P<config>[^/]+)-)?(?P<name>{_NAMES})(?:[-/](?P<split>.+))?")
_SHARD = re.compile(r"(-\d+(-of-\d+)?(-[0-9a-f]+)?|/\d+)$")

FilesOf = dict[str, dict[str, list[Path]]]
"""Name of a table -> split -> its files; the split is "" where the name has none."""


class TaskTables(NamedTuple):
    """The tables of a retrieval task, and the split that was read."""

    corpus: Table
    queries: Table
    qrels: Table
    split: str


def open_task(root: Path, split: str | None = None, config: str | None = None) -> TaskTables:
    """Open the tables of a retrieval task in a folder, in any of the layouts of MTEB and BEIR.

    The split is that of the judgments. Corpus and queries have the same split, or a single one.

    Args:
        root: the folder.
        split: "test" without it, else "validation" or "dev", else the only one.
        config: what the names of its tables begin with, such as a language.

    Raises:
        HoldfastError: no such folder, split, or table; or a task of another kind.
    """
    if not root.is_dir():
        raise Missing(
            f"retrieval:{root}: expected the folder of a task, found none; {path_meant(root)}, or download the task "
            "first: hf download --repo-type dataset NAME --local-dir FOLDER"
        )
    tables = _tables(root, config)
    if strange := [name for name in OTHERS if name in tables]:
        raise Unsupported(
            f"retrieval:{root}: expected queries that search the whole corpus by an image alone, got the table "
            f"{strange[0]}, {OTHERS[strange[0]]}; choose another task"
        )
    by_kind = {kind: _find_splits(root, kind, tables) for kind in KINDS}
    chosen = _choose_split(root, split, list(by_kind["qrels"]))
    corpus, queries, qrels = (open_table(_files(root, kind, by_kind[kind], chosen)) for kind in KINDS)
    return TaskTables(corpus, queries, qrels, chosen)


def _tables(root: Path, config: str | None) -> FilesOf:
    """Return the tables of a configuration below a folder."""
    configs: dict[str | None, FilesOf] = {}
    # Sorted, so that shards of a table are in their order
    for name, files in sorted(_find_tables(root)):
        # Numbers of shards are not part of a table's name
        if match := _TABLE.fullmatch(_SHARD.sub("", name)):
            splits = configs.setdefault(match["config"], {}).setdefault(match["name"], {})
            splits.setdefault(match["split"] or "", []).extend(files)
    if config is not None and config not in configs:
        raise unknown(f"config of retrieval:{root}", config, [name for name in configs if name])
    if config is None and None not in configs and configs:
        raise Ambiguous(
            f"retrieval:{root} has the configs {', '.join(sorted(filter(None, configs)))}; choose with ?config=NAME"
        )
    return configs.get(config, {})


def _find_tables(root: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yield all that may be a table below a folder: its name, relative and without its ending, and its files."""
    for place, folders, names in os.walk(root):
        folder = Path(place)
        # In place, as os.walk wants it: what is taken out is not entered
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "images")
        # `save_to_disk` names its Arrow files itself
        if "state.json" in names:
            yield folder.relative_to(root).as_posix(), _arrow(folder)
            continue
        for name in sorted(names):
            file = folder / name
            if file.suffix in SUFFIXES and file.suffix != ".arrow":
                yield file.relative_to(root).with_suffix("").as_posix(), [file]


def _arrow(folder: Path) -> list[Path]:
    """Return the Arrow files of a data set that `save_to_disk` wrote, in their order."""
    try:
        state = parse_json(read_bytes(folder / "state.json"))
        files = [folder / entry["filename"] for entry in state["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadData(f"cannot read {str(folder / 'state.json')!r}, of save_to_disk; save it again") from error
    # An index would give other rows than the files have, or in another order
    if state.get("_indices_data_files"):
        raise BadData(f"{str(folder)!r}: expected a data set without indices; save it after flatten_indices()")
    return files


def _find_splits(root: Path, kind: str, tables: FilesOf) -> dict[str, list[Path]]:
    """Return the splits of a table."""
    for name in KINDS[kind]:
        if name in tables:
            return tables[name]
    raise Missing(
        f"retrieval:{root}: expected the table {kind}, got {', '.join(tables) or 'no table'}; a task has {LAYOUTS}"
    )


def _choose_split(root: Path, split: str | None, splits: list[str]) -> str:
    """Return the split of the judgments that is asked for, or the usual one."""
    if split is not None and split not in splits:
        raise unknown(f"split of retrieval:{root}", split, filter(None, splits))
    # The usual split before others, and the only one in any case
    usual = [name for name in USUAL if name in splits] or splits
    if split is None and len(usual) > 1 and usual is splits:
        raise Ambiguous(f"retrieval:{root} has the splits {', '.join(splits)}; choose with ?split=NAME")
    return usual[0] if split is None else split


def _files(root: Path, kind: str, splits: dict[str, list[Path]], split: str) -> list[Path]:
    """Return the files of a table for a split: its own, or the only ones that there are."""
    if split not in splits and len(splits) > 1:
        raise unknown(f"split of the {kind} of retrieval:{root}", split, filter(None, splits))
    files = splits[split] if split in splits else next(iter(splits.values()))
    if len({file.suffix for file in files}) != 1:
        raise BadData(
            f"retrieval:{root}: expected the {kind} in files of one format, got "
            f"{', '.join(file.name for file in files[:4]) or 'none'}; remove the others"
        )
    return files
