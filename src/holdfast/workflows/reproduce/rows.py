"""Rows of a table that are several scores of one measure: the read-outs of an attack, radii, classes."""

from collections.abc import Mapping
from typing import Any

from holdfast.core import HoldfastError


def spread(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the rows and the claims of a recipe, with a row for each of the `scores` that one names.

    A row "drift" of the scores "5 steps" and "10 steps" stands for the rows "drift, 5 steps" and "drift, 10 steps", and
    so it does in the `rows` of claims; its published numbers are a list for each.

    Raises:
        HoldfastError: scores that are no list of texts, or not as many as the lists of published numbers.
    """
    rows: list[Any] = []
    names: dict[str, list[str]] = {}  # of the rows that one stands for
    for row in values.get("rows", ()):
        if not isinstance(row, Mapping) or "scores" not in row:
            rows.append(row)
            continue
        name, scores = row.get("name"), row["scores"]
        if not isinstance(scores, list) or not scores or not all(isinstance(score, str) for score in scores):
            raise HoldfastError(f"{where}: rows: {name!r}: expected a list of scores, got {scores!r}")
        published = row.get("published", [[]] * len(scores))
        if (
            not isinstance(published, list)
            or len(published) != len(scores)
            or not all(isinstance(numbers, list) for numbers in published)
        ):
            raise HoldfastError(
                f"{where}: rows: {name!r}: expected published numbers as {len(scores)} lists, one for each score, got "
                f"{published!r}"
            )
        # one row for each score
        common = {key: value for key, value in row.items() if key != "scores"}
        spread_rows = [
            {**common, "name": f"{name}, {score}", "score": score, "published": numbers}
            for score, numbers in zip(scores, published, strict=True)
        ]
        names[str(name)] = [single["name"] for single in spread_rows]
        rows += spread_rows
    claims = [_renamed(claim, names) if isinstance(claim, Mapping) else claim for claim in values.get("claims", ())]
    return {"rows": rows, "claims": claims}


def _renamed(claim: Mapping[str, Any], names: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return a claim whose rows are those that the rows it names stand for."""
    rows = claim.get("rows", [claim["row"]] if "row" in claim else [])
    if not isinstance(rows, list) or not any(name in names for name in rows):
        return dict(claim)
    rows = [single for name in rows for single in names.get(name, [name])]
    return {**{key: value for key, value in claim.items() if key != "row"}, "rows": rows}
