"""What happened at every step, as columns: kept in memory, written with every checkpoint."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.store import Store

NAME = "log.parquet"


class Log:
    """The rows of a training's log; columns may begin late, and are empty where nothing was said.

    Args:
        rows: what a checkpoint kept.
    """

    def __init__(self, rows: list[dict[str, Any]] | None = None):
        self.rows: list[dict[str, Any]] = list(rows or [])

    def add(self, **values: float) -> None:
        """Take down a step."""
        self.rows.append(values)

    def note(self, values: dict[str, float]) -> None:
        """Take down more about the last step."""
        self.rows[-1] |= values

    def write(self, store: Store) -> None:
        """Write the whole log as Parquet."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        columns = {name: pa.array([row.get(name) for row in self.rows]) for name in names}
        store.write(NAME, lambda path: pq.write_table(pa.table(columns), path))
