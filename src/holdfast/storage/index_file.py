"""Reading `index.json`: the one way in which a comparison of two encoders of an index is opened."""

import json

from holdfast.runtime.errors import UnreadableRecord, os_reason
from holdfast.storage.entry import read_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.index_upgrade import SCHEMA, IndexRecord
from holdfast.storage.record_file import schema_of

INDEX = "index.json"


def read_index(folder: Folder) -> IndexRecord:
    """Return what `holdfast compare-index` wrote into a folder.

    Raises:
        UnreadableRecord: no such file, one that is damaged, or one of another version of Holdfast.
    """
    try:
        data = json.loads(folder.read(INDEX))
        if (schema := schema_of(data)) != SCHEMA:
            raise ValueError(f"its schema is {schema!r}, and {SCHEMA} is expected")
        return read_json(data, IndexRecord)
    except (OSError, ValueError, RecursionError) as error:
        reason = os_reason(error) if isinstance(error, OSError) else str(error)
        raise UnreadableRecord(
            f"expected the {INDEX} of a comparison in {folder.place!r}, got one that cannot be read: {reason}; run "
            "holdfast compare-index again"
        ) from error
