"""The one training loop: any method, with or without an adversary, in one process or several; it resumes exactly."""

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from holdfast import registry
from holdfast.core import Encoder, HoldfastError, Images, Rng
from holdfast.encoders import open_encoder
from holdfast.encoders._copy import save, trainable, with_weights
from holdfast.encoders._weights import seeded
from holdfast.listener import Listener, Silent
from holdfast.methods._batchnorm import prepared, released
from holdfast.methods._gather import processes, rank
from holdfast.methods._student import Batch, Facts, Outcome, Student, View
from holdfast.store import Store, files_read
from holdfast.training import _checkpoint as checkpoint
from holdfast.training import _engine as engines
from holdfast.training._images import TrainingImages
from holdfast.training._log import Log
from holdfast.training.recipe import Recipe, entry

SAVE_EVERY = 60.0
"""Seconds between checkpoints."""

COLLAPSED, PATIENCE = 1e-3, 20
"""Spread of representations below which, for so many steps, a training has collapsed."""


@runtime_checkable
class Monitor(Protocol):
    """Looks at the encoder along the training."""

    every: int

    def __call__(self, encoder: Encoder, step: int) -> dict[str, float]:
        """Return named numbers for the log; the encoder is frozen, and must be left as it is."""
        ...


@dataclass(frozen=True)
class Trained:
    """What came out of a training.

    Attributes:
        encoder: the encoder, frozen.
        spec: how it is opened again.
        steps: of the optimiser.
        resumed: steps that an earlier run had made.
        rows: the log, one row per step.
    """

    encoder: Encoder
    spec: str
    steps: int
    resumed: int
    rows: list[dict[str, Any]]


def train(
    recipe: Recipe,
    folder: Path,
    *,
    encoder: Encoder | None = None,
    images: TrainingImages | None = None,
    monitors: tuple[Monitor, ...] = (),
    track: Sequence[str] = (),
    listener: Listener | None = None,
    command: str = "",
) -> Trained:
    """Train an encoder; interrupted, the same call goes on and comes to the same weights; done, it says so at once.

    The folder holds `encoder.safetensors`, what came out; `recipe.json`; `log.parquet`, a row for every step;
    `snapshots/`, where the recipe asks for them; and `checkpoint.pt`.

    Args:
        recipe: what to do.
        folder: the run folder.
        encoder: one that is open already, instead of the recipe's.
        images: those that are open already, instead of the recipe's.
        monitors: look at the encoder along the way.
        track: trackers that get the log as well: "tensorboard", "mlflow", "trackio".
        listener: told about progress.
        command: how to do it again, for the record.

    Raises:
        HoldfastError: an encoder that cannot be trained, fewer images than a batch, a loss or gradient that is not
            finite, or representations that have collapsed; the last checkpoint is kept.
    """
    return _Training(recipe, Store(folder), encoder, images, monitors, track, listener or Silent(), command).run()


class _Training:
    def __init__(
        self,
        recipe: Recipe,
        store: Store,
        encoder: Encoder | None,
        images: TrainingImages | None,
        monitors: tuple[Monitor, ...],
        track: Sequence[str],
        listener: Listener,
        command: str,
    ):
        self.recipe, self.store, self.monitors, self.listener = recipe, store, monitors, listener
        self.path = store.folder / "encoder.safetensors"
        self.spec = with_weights(recipe.encoder, self.path)
        self.accelerator = engines.engine(recipe, track, store.folder)
        start = encoder or open_encoder(recipe.encoder)
        self.images = images or TrainingImages(
            recipe.data,
            geometry=start.geometry,
            size=recipe.images,
            seed=recipe.seed,
            device=self.accelerator.device,
            corruption=recipe.corruption if recipe.corrupt == "before" else None,
        )
        self.per_epoch = len(self.images) // recipe.batch_size
        self.replays = recipe.adversary.free if recipe.adversary else 1
        self.total = recipe.steps or recipe.epochs * self.per_epoch * self.replays
        self._check(start)
        classes = self.images.classes
        encoder = trainable(start)
        facts = Facts(_width(encoder, self.images), len(self.images), len(classes) if classes else None)
        with seeded(_number(recipe.seed, "heads")):
            student = recipe.method.student(prepared(encoder, recipe.batchnorm), facts)
        recipe.views.check(start, self.images.batch(torch.arange(2)).cpu(), many=student.many)
        if processes() > 1:
            self._leave_out(student)
        student.train()
        optimiser = recipe.optimiser.build(student)
        self.model, self.optimiser = self.accelerator.prepare(student, optimiser)
        self.student: Student = self.accelerator.unwrap_model(self.model)
        self.mean = engines.running_mean(self.student.encoder.module, recipe.ema)
        self.held = nn.ModuleDict({"student": self.student} | ({"ema": self.mean} if self.mean else {}))
        asked, learned = entry(recipe), self.images.images
        begun = {"weights": start.refresh_fingerprint(), "images": learned.fingerprint}
        begun |= {"labels": learned.labels_fingerprint, "files": files_read(asked)}
        self.asked = {**asked, "begun_from": begun}
        self.command, self.rng = command, Rng(recipe.seed, ("training",))
        self.step, self.log, self._order, self._flat, self._whole = 0, Log(), (-1, torch.empty(0)), 0, True
        self._attacked: dict[int, list[Images]] = {}  # part of the batch -> what the step before attacked it with

    def _check(self, start: Encoder) -> None:
        recipe, together = self.recipe, self.recipe.batch_size // self.recipe.accumulate
        if not self.per_epoch:
            raise HoldfastError(
                f"expected at least a batch of {recipe.batch_size} images, got {len(self.images)} in {recipe.data}; "
                "give more, or a smaller batch_size"
            )
        if together % processes():
            raise HoldfastError(
                f"expected a batch that {processes()} processes can share, got {together} images; change batch_size"
            )
        if recipe.method.needs_labels and self.images.labels is None:
            raise HoldfastError(
                f"{registry.part_name(recipe.method)}: expected images with labels, got some or all without in "
                f"{recipe.data}; give labelled images, or choose a method that needs none"
            )

    def _leave_out(self, student: Student) -> None:
        """Freeze weights that the loss does not reach, such as layers behind the representation.

        Processes that train together would wait for their gradients.
        """
        few = torch.arange(self.recipe.batch_size // self.recipe.accumulate // processes())
        x, device = self.images.batch(few), self.accelerator.device
        whole = few.repeat(processes())  # each process's part is gathered
        labels = None if self.images.labels is None else self.images.labels[whole].to(device)
        self._outcome(
            student.to(device).eval(), [x] * student.views, [x], Batch(whole.to(device), labels)
        ).loss.backward()
        for value in student.parameters():
            value.requires_grad_(value.requires_grad and value.grad is not None)
        student.zero_grad()

    def run(self) -> Trained:
        """Train to the end, from the checkpoint where there is one."""
        digest = hashlib.sha256(json.dumps(self.asked, sort_keys=True).encode()).hexdigest()[:16]
        if kept := checkpoint.read(self.store.folder, digest):
            checkpoint.restore(self.held, kept["tensors"])
            self.optimiser.load_state_dict(kept["optimiser"])
            if self.accelerator.scaler is not None and kept["scaler"]:
                self.accelerator.scaler.load_state_dict(kept["scaler"])
            self.step, self._flat, self.log = kept["step"], kept["flat"], Log(kept["log"])
        elif self.accelerator.is_main_process:
            self.store.write_json("recipe.json", self.asked | {"command": self.command})
        resumed, saved = self.step, time.monotonic()
        self.listener.begin(self.recipe.encoder, self.total, "steps")
        self.listener.advance(self.step)
        if self.step < self.total:
            engines.begin(self.accelerator, self.asked, self.store.folder)
        try:
            with engines.interrupts() as interrupted:
                while self.step < self.total:
                    self._one_step()
                    engines.tell(self.accelerator, self.log.rows[-1])
                    self.listener.advance(1)
                    self.listener.stage(f"loss {self.log.rows[-1]['loss']:.4g}")
                    if interrupted:
                        raise KeyboardInterrupt
                    if time.monotonic() - saved > SAVE_EVERY:
                        self._save(digest)
                        saved = time.monotonic()
        except KeyboardInterrupt:
            if self._whole:
                self._save(digest)
            raise
        finally:
            engines.end(self.accelerator)
        if not self._finite():
            raise HoldfastError(
                f"training stopped after its last step, {self.total}: not finite: weights; {self._kept()}; lower the "
                "rate, or clip the gradient (clip=1)"
            )
        self._save(digest)
        return self._finish(resumed)

    def _one_step(self) -> None:
        recipe, self._whole = self.recipe, False
        done, replay = divmod(self.step, self.replays)
        epoch, number = divmod(done, self.per_epoch)
        if replay == 0:
            self._attacked.clear()
        if replay == number == 0:
            self.student.begin_epoch(epoch, recipe.seed, lambda places: self._views(places.cpu(), epoch - 1))
        rate = recipe.optimiser.rate_at(self.step / self.total)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        places = self._places(epoch)[number * recipe.batch_size : (number + 1) * recipe.batch_size]
        parts = places.chunk(recipe.accumulate)
        outcomes = []
        with engines.randomness(_number(recipe.seed, "step", self.step, rank()), self.accelerator.device):
            for last, part in enumerate(parts, 1 - len(parts)):
                apart = self.accelerator.no_sync(self.model) if last else contextlib.nullcontext()
                with apart:
                    outcome = self._learn(part, epoch)
                    self.accelerator.backward(outcome.loss / len(parts))
                outcomes.append(Outcome(*(value.detach() for value in outcome)))
        facts = {name: float(torch.stack(values).mean()) for name, values in _columns(outcomes)}
        norm = float(self.accelerator.clip_grad_norm_(self.student.parameters(), recipe.clip or float("inf")))
        self._judge(facts | {"gradient": norm})
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.step += 1
        self.student.after_step(self.step / self.total)
        if self.mean is not None:
            self.mean.update_parameters(self.student.encoder.module)
        self.log.add(step=self.step, epoch=epoch + (number + 1) / self.per_epoch, rate=rate, gradient=norm, **facts)
        self._look((number + 1, replay + 1) == (self.per_epoch, self.replays), epoch + 1)
        self._whole = True

    def _learn(self, part: Tensor, epoch: int) -> Outcome:
        """Return the loss of a part of a batch, of which this process holds its share."""
        recipe, student = self.recipe, self.student
        mine = part.chunk(processes())[rank()]
        views = self._views(mine, epoch)
        labels = None if self.images.labels is None else self.images.labels[part].to(self.accelerator.device)
        batch = Batch(part.to(self.accelerator.device), labels, self.step / self.total, epoch, self.images.classes)
        if recipe.adversary is None:
            return self._outcome(self.model, views, [], batch)
        rng, key = self._rng(mine, epoch).child("adversary", self.step), int(part[0])
        attacked = recipe.adversary.disturb(student, views, batch, rng, self._attacked.get(key, ()))
        if self.replays > 1:
            self._attacked[key] = attacked
        return self._outcome(self.model, views, attacked, batch)

    def _outcome(self, model: nn.Module, views: list[View], attacked: list[Images], batch: Batch) -> Outcome:
        adversary = self.recipe.adversary
        if adversary is None:
            return model(views, [], batch)
        return model(views, attacked, batch, adversary.clean, adversary.weight, adversary.further(views))

    def _rng(self, places: Tensor, epoch: int) -> Rng:
        """Return the random numbers of some images in an epoch."""
        return self.rng.at([self.images.ids[place] for place in places.tolist()]).child(epoch)

    def _views(self, places: Tensor, epoch: int) -> list[View]:
        """Return the views of some images in an epoch."""
        recipe, student = self.recipe, self.student
        x, rng = self.images.batch(places), self._rng(places, epoch)
        views = [recipe.views(x, rng.child("view", view)) for view in range(1 if student.same_view else student.views)]
        if student.many:
            views += [recipe.views(x, rng.child("local", n), local=True) for n in range(recipe.views.local)]
        if recipe.corruption is not None and recipe.corrupt == "after":
            views = [recipe.corruption.sample(view, rng.child("corrupt", n)) for n, view in enumerate(views)]
        return views * student.views if student.same_view else views

    def _places(self, epoch: int) -> Tensor:
        """Return the order of the images in an epoch."""
        if self._order[0] != epoch:
            generator = self.rng.child("order", epoch).generator()
            self._order = epoch, torch.randperm(len(self.images), generator=generator)
        return self._order[1]

    def _judge(self, facts: dict[str, float]) -> None:
        """Stop where there is nothing left to learn from.

        Raises:
            HoldfastError: a loss or gradient that is not finite, or one point for all images.
        """
        bad = [name for name, value in facts.items() if not math.isfinite(value)]
        if self.recipe.precision == "fp16" and bad == ["gradient"]:
            bad = []  # the scaler leaves out such steps and lowers its scale
        where = f"at step {self.step + 1} of {self.total} (epoch {self.step // (self.per_epoch * self.replays) + 1})"
        if bad:
            raise HoldfastError(
                f"training stopped {where}: not finite: {', '.join(bad)}; {self._kept()}; lower the rate, clip the "
                "gradient (clip=1), or check the images and weights"
            )
        self._flat = self._flat + 1 if facts["spread"] < COLLAPSED else 0
        if self._flat >= PATIENCE:
            raise HoldfastError(
                f"training stopped {where}: collapsed: all images have one representation (relative spread "
                f"{facts['spread']:.1g} for {PATIENCE} steps); {self._kept()}; lower the rate, strengthen the "
                "augmentations, or choose a method that cannot collapse (simclr, barlow_twins, vicreg)"
            )

    def _kept(self) -> str:
        path = self.store.folder / checkpoint.NAME
        return f"the last good checkpoint is {str(path)!r}" if path.exists() else "no checkpoint had been kept yet"

    def _look(self, epoch_ends: bool, epochs: int) -> None:
        """Keep a snapshot and ask the monitors, where their time has come."""
        due = [monitor for monitor in self.monitors if self.step % monitor.every == 0 or self.step == self.total]
        snapshot = bool(self.recipe.snapshots) and epoch_ends and epochs % self.recipe.snapshots == 0
        if not (due or snapshot) or not self.accelerator.is_main_process:
            return
        encoder = self._encoder()
        for monitor in due:
            self.log.note(monitor(encoder, self.step))
        if snapshot:
            name = f"snapshots/epoch-{epochs:04d}.safetensors"
            self.store.write(name, lambda path: save(encoder, path, {"trained": f"{epochs} epochs"}))

    def _encoder(self) -> Encoder:
        """Return the encoder as it is now, frozen, with a network of its own."""
        return released(self.student.encoder, self.mean.module if self.mean is not None else None)

    def _save(self, digest: str) -> None:
        """Keep a checkpoint, unless the next step would refuse this state or goes on with the same attacked batch."""
        unfit = self.step < self.total and (self._flat or self.step % self.replays)
        if not self.accelerator.is_main_process or unfit or not self._finite():
            return
        scaler = self.accelerator.scaler
        facts = {"recipe": digest, "step": self.step, "flat": self._flat, "log": self.log.rows}
        facts |= {"optimiser": self.optimiser.state_dict(), "scaler": scaler.state_dict() if scaler else {}}
        checkpoint.write(self.store, self.held, facts)
        self.log.write(self.store)

    def _finite(self) -> bool:
        return all(bool(value.isfinite().all()) for value in self.held.parameters())

    def _finish(self, resumed: int) -> Trained:
        encoder = self._encoder()
        about = {"trained": self.recipe.title, "recipe": json.dumps(self.asked)}
        if self.accelerator.is_main_process:
            self.store.write(self.path.name, lambda path: save(encoder, path, about))
        self.accelerator.wait_for_everyone()
        return Trained(encoder, self.spec, self.step, resumed, self.log.rows)


def _width(encoder: Encoder, images: TrainingImages) -> int:
    """Return the size of the representations of a trainable encoder.

    Raises:
        HoldfastError: no gradient reaches its weights, or it computes in half or double precision.
    """
    encoder.module.eval()
    reps = encoder(images.batch(torch.arange(2)).cpu())
    encoder.module.train()
    if not reps.requires_grad or reps.dtype != torch.float32:
        found = reps.dtype if reps.requires_grad else "no gradient to any weight"
        raise HoldfastError(
            f"encoder {encoder.name!r}: expected float32 representations with gradients to train it, got {found}; open "
            "the original network, in float32"
        )
    return reps.shape[1]


def _number(seed: int, *names: object) -> int:
    return Rng(seed, ("training", *map(str, names))).generator().initial_seed()


def _columns(outcomes: list[Outcome]) -> list[tuple[str, tuple[Tensor, ...]]]:
    return list(zip(Outcome._fields, zip(*outcomes, strict=True), strict=True))
