"""Recipes as they lie in the repository, and the plain data they become."""

import json
from pathlib import Path

import pytest

from holdfast.training.recipe import entry
from holdfast.training.recipe_file import make_recipe, read_recipe

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_say_how_to_run_them_and_survive_json(path: Path) -> None:
    recipe = read_recipe(path)
    assert f"holdfast train recipes/{path.name}" in path.read_text()
    held = json.loads(json.dumps(entry(recipe)))
    plain = {key: value for key, value in held.items() if value is not None}
    if recipe.adversary is not None and recipe.adversary.objective is None:
        plain["adversary"]["objective"] = "loss"
    plain = {k: {n: v for n, v in x.items() if v is not None} if isinstance(x, dict) else x for k, x in plain.items()}
    assert make_recipe(plain) == recipe


def test_what_a_training_is_called() -> None:
    titles = {path.stem: read_recipe(path).title for path in RECIPES}
    assert titles["digits_simclr"] == "simclr, 400 epochs"
    assert titles["digits_simclr_adv"] == "simclr against linf 0.2, 400 epochs"
