"""A monitor of Holdfast's own training loop: looks every so many steps, and says what happened on the way."""

import json
from typing import Any

import torch

from holdfast.auditing.series import fluctuation
from holdfast.config.reader import arguments
from holdfast.core import Encoder, Measure, Table, registry
from holdfast.runtime.doors import open_tensors
from holdfast.runtime.errors import BadValue
from holdfast.sources.data import ImageSet, open_images
from holdfast.storage.entry import as_json
from holdfast.storage.monitor import LookEntry, MonitorRecord
from holdfast.storage.run_folder import Store
from holdfast.training.recipe import Recipe
from holdfast.workflows.monitor.snapshot import look, measures_of

KEYS: dict[str, Any] = {
    **dict.fromkeys(("every", "epochs", "images", "attacked", "train_images", "seed"), int),
    **dict.fromkeys(("data", "train"), str), "measures": tuple[str | dict, ...],
}  # fmt: skip
"""Keys of `[monitor]` and their types."""


class AuditMonitor:
    """Looks at an encoder along its training; see `holdfast.training.loop.Monitor`.

    Every look is a file in the run folder, so a training that resumes goes on with what was seen before.
    `monitor.json` holds all looks: values by step, failures, and the semantic fluctuation of measures that say which
    images are right: TV_c = 1/(T-1) Σ_t |Acc_c(t+1) - Acc_c(t)| over the T looks.

    Args:
        store: the run folder.
        name: of the file, and of the folder with the looks.
        every: steps between looks.
        data: images to ask about.
        measures: what to ask.
        train: labelled images that probes learn from; None: those of `data` that are not attacked.
        attacked: how many images are attacked or tested; see `look`.
        seed: the one seed of what is drawn.
    """

    def __init__(
        self,
        store: Store,
        every: int,
        data: ImageSet,
        measures: tuple[Measure, ...],
        *,
        name: str = "monitor",
        train: ImageSet | None = None,
        attacked: int | None = None,
        seed: int = 0,
    ):
        if every < 1:
            raise BadValue(f"monitor: every: expected at least 1 step, got {every}")
        self.every = every
        self._store, self._name, self._images, self._measures = store, name, data, measures
        self._train, self._attacked, self._seed = train, attacked, seed

    def __call__(self, encoder: Encoder, step: int) -> dict[str, float]:
        """Return the values of a look, and keep it; a measure that fails is said in `monitor.json`.

        Where the monitor is not called "monitor", their names begin with its own: several may ask the same.
        """
        folder = self._store.folder / self._name
        for file in folder.glob("*.safetensors"):  # of a training that was begun anew, or went on from before
            if int(file.stem) >= step:
                file.unlink()
        snapshot = look(
            encoder, self._images, self._measures, train=self._train, attacked=self._attacked, seed=self._seed
        )
        judged = {name: table for name, table in snapshot.tables.items() if {"right", "label"} <= set(table)}
        rows = {f"{key}@{name}": table[key] for name, table in judged.items() for key in ("right", "label")}
        facts = {"values": json.dumps(snapshot.values), "failures": json.dumps(snapshot.failures)}
        rows["step"] = torch.tensor(step)
        self._store.write_tensors(f"{self._name}/{step:08d}.safetensors", rows, facts)
        self._store.write_json(f"{self._name}.json", self.summary())
        return {name if self._name == "monitor" else f"{self._name}/{name}": v for name, v in snapshot.values.items()}

    def summary(self) -> dict[str, Any]:
        """Return all looks so far as plain data; what is undefined is None."""
        looks: list[LookEntry] = []
        tables: dict[str, dict[str, Table]] = {}
        for path in sorted((self._store.folder / self._name).glob("*.safetensors")):
            with open_tensors(path) as file:
                facts = file.metadata()
                values, failures = (json.loads(facts[key]) for key in ("values", "failures"))
                looks.append(LookEntry(step=int(path.stem), values=values, failures=failures))
                for key in file.keys():  # noqa: SIM118
                    column, _, name = key.partition("@")
                    if name:
                        tables.setdefault(name, {}).setdefault(path.stem, {})[column] = file.get_tensor(key)
        steps = [f"{look.step:08d}" for look in looks]
        seen = MonitorRecord(
            measures=[registry.spec(measure) for measure in self._measures],
            images=len(self._images),
            looks=looks,
            fluctuation={name: fluctuation(steps, table) for name, table in tables.items() if len(steps) > 1},
        )
        return as_json(seen)


def monitors_of(tables: Any, recipe: Recipe, store: Store) -> tuple[AuditMonitor, ...]:
    """Return the monitors that a recipe file asks for in `[monitor]`, or in several `[[monitor]]`.

    Keys: `every` (steps) or `epochs` between looks; `data` and `images`, what is asked about; `attacked`; `train` and
    `train_images`, what probes learn from; `measures`, names or tables; `seed`.

    Args:
        tables: one table or a list of them, as plain data.
        recipe: of the training.
        store: its folder.

    Raises:
        HoldfastError: a key that nobody knows, a measure or data that are missing.
    """
    several = tables if isinstance(tables, list) else [tables]
    return tuple(
        _monitor(table, recipe, store, "monitor" if number == 1 else f"monitor-{number}")
        for number, table in enumerate(several, 1)
    )


def _monitor(table: Any, recipe: Recipe, store: Store, name: str) -> AuditMonitor:
    table = arguments(KEYS, table, "monitor")
    if "data" not in table or ("every" in table) == ("epochs" in table):
        raise BadValue("monitor: expected data, and every (steps) or epochs between looks, one of the two")
    every = table.get("every")
    if every is None:
        learned = len(open_images(recipe.data, images=recipe.images, seed=recipe.seed))
        every = table["epochs"] * max(1, learned // recipe.batch_size)
    seed = table.get("seed", recipe.seed)
    train = table.get("train")
    images = open_images(table["data"], images=table.get("images"), seed=seed)
    return AuditMonitor(
        store,
        every,
        images,
        measures_of(table.get("measures", ()), images),
        name=name,
        train=None if train is None else open_images(train, images=table.get("train_images"), seed=seed),
        attacked=table.get("attacked"),
        seed=seed,
    )
