"""`holdfast.harden`: a network in memory becomes robust without labels, and is audited before and after."""

import os
import shutil
import weakref
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

from torch import nn

from holdfast.api.in_memory import (
    Data,
    InMemory,
    Kept,
    Labels,
    Model,
    choose_device,
    listen,
    open_encoders,
    open_source,
    run_folder,
)
from holdfast.api.record import Record
from holdfast.comparison.records import open_run
from holdfast.core import Encoder
from holdfast.report.document import Document
from holdfast.report.documents.hardening import document
from holdfast.report.paper.figure import Figure
from holdfast.report.render import Shown
from holdfast.runtime.distributed import torchrun_size
from holdfast.runtime.errors import BadValue, Missing, Unsupported
from holdfast.runtime.option import Option, convert, takes
from holdfast.storage.filesystem import local_folder
from holdfast.storage.hardening import HardeningRecord
from holdfast.workflows.harden.audits import Opened
from holdfast.workflows.harden.plan import Hardening
from holdfast.workflows.harden.request import HardenOptions
from holdfast.workflows.harden.run import harden as run
from holdfast.workflows.monitor.snapshot import isolate_global_state


@dataclass(frozen=True, eq=False, repr=False)
class HardenedModel(Shown):
    """What `holdfast.harden` returns. Print it.

    Attributes:
        module: a hardened copy of your network, in eval mode, whose state dict your own network loads.
        encoder: the same as an `Encoder`, with its normalisation.
        record: every measure before and after, the price, warnings; what `harden.json` holds.
        audit: the audit of both, `holdfast.open`ed.
    """

    module: nn.Module
    encoder: Encoder
    record: HardeningRecord
    audit: Record

    def _document(self) -> Document:
        return document(self.record)

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures of both audits."""
        return self.audit.figures

    def figure(self, name: str, **style: Any) -> Figure:
        """Return a figure of both audits for a paper, see `Record.figure`.

        Raises:
            HoldfastError: a figure that there is not, or a style that no figure can have.
        """
        return self.audit.figure(name, **style)


@dataclass(frozen=True)
class Harden(Kept, HardenOptions, InMemory):
    """What a hardening is asked in Python: the network and images may be objects."""

    model: Annotated[
        Model,
        Option(
            "A network that maps normalised images [B, C, H, W] to representations [B, D], an `Encoder`, or a spec; it "
            "is not changed."
        ),
    ]
    data: Annotated[Data, Option("Images to learn from, see `holdfast.audit`; labels are not needed.")]
    _: KW_ONLY
    test: Data = None
    test_labels: Annotated[Labels, Option("A class for each test image of an array."), "signed"] = None
    train: Data = None
    train_labels: Annotated[Labels, Option("A class for each training image of an array."), "signed"] = None
    head: str | os.PathLike[str] | None = None


@takes(Harden)
def harden(asked: Harden) -> HardenedModel:
    """Fine-tune a copy of an encoder on attacked images, without labels, and audit both; as `holdfast harden` does.

    Your network is not touched, and random numbers outside go on as before.

    Raises:
        HoldfastError: a network that cannot be trained, or whose weights could not be loaded again; images too few; a
            request that cannot be answered.
    """
    # A result is one process's; said now, not after all of them have trained
    if torchrun_size() > 1:
        raise Unsupported("harden: expected one process, got several; start holdfast harden by torchrun instead")
    # the network and the images, opened or as specs
    opened = open_encoders(asked.model, asked.mean, asked.std)
    if len(opened) != 1:
        raise BadValue(f"harden: expected one network, got {len(opened)}; give them one after the other")
    ((name, encoder),) = opened.items()
    network = encoder if isinstance(encoder, Encoder) else None
    source, spec = open_source("data", asked.data, asked.labels)
    tested, test_spec = open_source("test", asked.test, asked.test_labels)
    learned, train_spec = open_source("train", asked.train, asked.train_labels)
    if spec is None:
        raise Missing("harden: expected data, images to learn from, got None")
    plan = convert(
        asked,
        Hardening,
        encoder=str(encoder) if network is None else name,
        data=spec,
        test=test_spec,
        train=train_spec,
        head=None if asked.head is None else os.fspath(asked.head),
        device=choose_device(asked.device, opened),
    )
    # train and audit; then the copy's weights may be trained where yours may
    with run_folder(asked.out) as place:
        folder = local_folder(place)
        with isolate_global_state(), listen(asked.quiet) as bars:
            hardened = run(plan, folder, opened=Opened(network, source, tested, learned), listener=bars)
        assert hardened is not None  # the only process has it
        module = hardened.encoder.module.get_submodule(hardened.encoder.root)
        originals = _bare(asked.model).parameters() if network else ()
        for original, copy in zip(originals, module.parameters(), strict=bool(network)):
            copy.requires_grad_(original.requires_grad)
        result = HardenedModel(module, hardened.encoder, hardened.record, Record(open_run(str(folder / "audit"))))
    if asked.out is None:
        weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)
    return result


def _bare(model: Any) -> nn.Module:
    return model.module.get_submodule(model.root) if isinstance(model, Encoder) else model
