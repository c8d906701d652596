"""What happened at every step, as columns: kept in memory, written with every checkpoint."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.runtime.errors import BadValue
from holdfast.storage.run_folder import Store

NAME = "log.parquet"


class Log:
    """The rows of a training's log; columns may begin late, and are empty where nothing was said.

    Args:
        rows: what a checkpoint kept.
    """

    def __init__(self, rows: list[dict[str, float]] | None = None):
        self.rows: list[dict[str, float]] = list(rows or [])

    def add(self, **values: float) -> None:
        """Take down a step."""
        self.rows.append(values)

    def note(self, values: Mapping[str, float]) -> None:
        """Take down more about the last step, as plain numbers, which a checkpoint can hold."""
        for name, value in values.items():
            try:
                number = float(value)
            except (TypeError, ValueError, RuntimeError) as error:
                raise BadValue(f"monitor: {name}: expected one number, got {value!r}") from error
            if name in self.rows[-1]:  # two monitors may say it, or one says what the loop says
                raise BadValue(f"monitor: the log has {name!r} already; call what is looked at otherwise")
            self.rows[-1][name] = number

    def write(self, store: Store) -> None:
        """Write the whole log as Parquet."""
        # Columns in the order in which they first appeared
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        columns = {name: pa.array([row.get(name) for row in self.rows]) for name in names}
        store.write(NAME, lambda path: pq.write_table(pa.table(columns), path.absolute()))
