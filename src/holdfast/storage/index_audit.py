"""`index_audit.json`, typed: what `holdfast audit-index` finds of one index."""

from holdfast.storage.entry import Count, Entry, Number
from holdfast.storage.finding import Finding
from holdfast.storage.index_upgrade import IndexMeasure
from holdfast.storage.record import Environment, Software

SCHEMA = 1
"""Version of the record's layout."""


class Hub(Entry, frozen=True, kw_only=True):
    """An item, and in how many lists of neighbours it stands."""

    id: str
    lists: Count


class NearPair(Entry, frozen=True, kw_only=True):
    """Two items that are nearly the same, and their cosine."""

    first: str
    second: str
    cosine: Number


class VectorsEntry(Entry, frozen=True, kw_only=True):
    """The vectors of an index.

    Attributes:
        name: what they are called.
        items: how many there are.
        dim: numbers of each.
        kind: of these numbers, "float32".
        fingerprint: of all numbers and ids.
        compared: items of which all pairs are compared.
        zero: vectors of zeros alone.
        not_finite: vectors with NaN or infinite numbers, which are left out of everything else.
        copies: vectors that equal another one to the last bit.
        constant: dimensions that have one value throughout.
        shortest: the least length of a vector.
        longest: the largest.
    """

    name: str
    items: Count
    dim: Count
    kind: str
    fingerprint: str
    compared: Count
    zero: Count
    not_finite: Count
    copies: Count
    constant: list[Count]
    shortest: Number
    longest: Number


class VectorPlanEntry(Entry, frozen=True, kw_only=True):
    """What was asked, by the options of the command."""

    vectors: str
    k: Count
    similar: Number
    rate: Number
    divergence: str
    queries: Count | None
    require: list[str]
    seed: int


class IndexAudit(Entry, frozen=True, kw_only=True):
    """What `index_audit.json` holds.

    Attributes:
        schema: see `SCHEMA`.
        holdfast: what wrote it.
        command: asks the same again; "" where none can.
        plan: what was asked.
        vectors: which, and what every number of them says.
        distance: by what items are near each other.
        measures: by name, as `IndexUpgrade` has them.
        hubs: the items in most lists.
        pairs: the nearest pairs among near-duplicates.
        groups: ids of vectors that are equal, of each group the first.
        notes: what should be known.
        environment: what computed it.
        finished: when, in UTC.
        findings: whether each requirement is met.
        passed: whether all are.
        status: the exit status.
    """

    schema: int
    holdfast: Software
    command: str
    plan: VectorPlanEntry
    vectors: VectorsEntry
    distance: str
    measures: dict[str, IndexMeasure]
    hubs: list[Hub]
    pairs: list[NearPair]
    groups: list[list[str]]
    notes: list[str]
    environment: Environment
    finished: str
    findings: list[Finding]
    passed: bool
    status: Count
