"""Every profile answers what it answered when tests/golden/digits.json was written; see benchmarks/golden.py."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # benchmarks are no part of the package

from benchmarks.golden import DIGITS, answers, compact, differences

KEPT = Path(__file__).parents[1] / "golden" / "digits.json"


@pytest.mark.slow
@pytest.mark.parametrize("profile", DIGITS)
def test_a_profile_answers_what_it_did(profile):
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    ((_, answer, *_),) = answers([profile])
    assert list(differences(kept[profile], compact(answer), profile, (1e-3, 1e-5))) == []


def test_differences_are_told():
    kept = {"n": 3, "value": 0.5, "standing": "sound", "rows": [1.0, float("nan")], "gone": 1}
    now = {"n": 4, "value": 0.5 + 1e-7, "standing": "void", "rows": [1.1, float("nan")], "new": 1}
    lines = list(differences(kept, now, "at"))
    assert [line.split(":")[0] for line in lines] == [
        "at / n",
        "at / standing",
        "at / rows [0]",
        "at / gone",
        "at / new",
    ]
    assert list(differences(kept, kept, "at")) == []
    assert list(differences(kept, now, "at", (0.5, 0), ignore=("n", "standing", "gone", "new"))) == []
