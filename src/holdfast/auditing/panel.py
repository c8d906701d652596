"""The validity panel: the checks that belong to some measures, each search that these rely on examined once."""

from collections.abc import Iterable

from holdfast.core import Check, Examination, Measure, Search, registry


def validity_panel(
    measures: Iterable[Measure], examined: int, queries: int, precision: str = "float32"
) -> tuple[Check, ...]:
    """Return the checks that belong to some measures: of each kind those that it says belong to them.

    Where no measure reads the audit's images, what could be wrong with these is not examined.
    """
    audit = Examination(tuple(measures), examined, queries, precision)
    position: dict[Search | None, int] = {search: number for number, search in enumerate(audit.searches)}
    kinds = [registry.find("checks", name) for name in registry.names("checks")]
    checks = [check for kind in kinds for check in kind.checks_for(audit)]
    return tuple(sorted(checks, key=lambda check: (check.place // 10, position.get(check.search, -1), check.place)))
