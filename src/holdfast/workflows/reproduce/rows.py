"""Rows of a table that are several numbers of one measure: the read-outs of an attack, radii, classes, quantiles."""

from collections.abc import Mapping
from typing import Any

from holdfast.runtime.errors import BadValue

SEVERAL = {"scores": "score", "quantiles": "quantile"}
"""Keys of a row that stands for several, and the key that each of these has."""


def spread(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the rows and the claims of a recipe, with a row for each of the `scores`, or `quantiles`, that one names.

    A row "drift" of the scores "5 steps" and "10 steps" stands for the rows "drift, 5 steps" and "drift, 10 steps", and
    so it does in the `rows` of claims; its published numbers are a list for each.
    """
    rows: list[Any] = []
    names: dict[str, list[str]] = {}  # of the rows that one stands for
    for row in values.get("rows", ()):
        several = [key for key in SEVERAL if isinstance(row, Mapping) and key in row]
        if not several:
            rows.append(row)
            continue
        name, key, scores = row.get("name"), several[0], row[several[0]]
        listed = isinstance(scores, list) and all(isinstance(score, str) for score in scores)
        if not listed or not scores or len(several) > 1:
            raise BadValue(f"{where}: rows: {name!r}: expected a list of {' or of '.join(several)}, got {scores!r}")
        published = row.get("published", [[]] * len(scores))
        if (
            not isinstance(published, list)
            or len(published) != len(scores)
            or not all(isinstance(numbers, list) for numbers in published)
        ):
            raise BadValue(
                f"{where}: rows: {name!r}: expected published numbers as {len(scores)} lists, one for each, got "
                f"{published!r}"
            )
        # one row for each
        common = {field: value for field, value in row.items() if field != key}
        spread_rows = [
            {**common, "name": f"{name}, {score}", SEVERAL[key]: score, "published": numbers}
            for score, numbers in zip(scores, published, strict=True)
        ]
        names[str(name)] = [single["name"] for single in spread_rows]
        rows += spread_rows
    claims = [_expand_rows(claim, names) if isinstance(claim, Mapping) else claim for claim in values.get("claims", ())]
    return {"rows": rows, "claims": claims}


def _expand_rows(claim: Mapping[str, Any], names: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return a claim whose rows are those that the rows it names stand for."""
    rows = claim.get("rows", [claim["row"]] if "row" in claim else [])
    if not isinstance(rows, list) or not any(name in names for name in rows):
        return dict(claim)
    rows = [single for name in rows for single in names.get(name, [name])]
    return {**{key: value for key, value in claim.items() if key != "row"}, "rows": rows}
