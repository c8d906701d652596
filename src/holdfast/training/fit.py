"""Whether an encoder, images and a recipe fit together: asked before the first step, not after the last one."""

import os

import torch

from holdfast.core import Encoder, HoldfastError, Images, Reps, registry
from holdfast.runtime.distributed import processes, rank
from holdfast.runtime.errors import BadValue, Failed, Missing, NotEnough, Unsupported, first_line
from holdfast.runtime.network import copy_of
from holdfast.sources.encoders import find_weights_suffix, open_encoder, write
from holdfast.sources.encoders.shared.copies import copy_encoder, save, with_weights
from holdfast.sources.encoders.shared.weights import fix_seed, read_safetensors
from holdfast.storage.run_folder import Store
from holdfast.training.images import TrainingImages
from holdfast.training.recipe import Recipe


def check(recipe: Recipe, images: TrainingImages) -> None:
    """Refuse images, or processes, that a recipe cannot be followed with."""
    together = recipe.batch_size // recipe.accumulate
    if len(images) < recipe.batch_size:
        raise NotEnough(
            f"expected at least a batch of {recipe.batch_size} images, got {len(images)} in {recipe.data}; "
            "give more, or a smaller batch_size"
        )
    if together % processes():
        raise BadValue(
            f"expected a batch that {processes()} processes can share, got {together} images; change batch_size"
        )
    if recipe.method.needs_labels and images.labels is None:
        raise Missing(
            f"{registry.part_name(recipe.method)}: expected images with labels, got some or all without in "
            f"{recipe.data}; give labelled images, or choose a method that needs none"
        )


def width(encoder: Encoder, images: TrainingImages) -> int:
    """Return the size of the representations of a trainable encoder."""
    encoder.module.eval()  # the two images must move no statistics
    reps = _encode(encoder, images.batch(torch.arange(2)).cpu())
    encoder.module.train()
    # Weights in half precision would lose the small steps; mixed precision keeps them in float32
    learned = {value.dtype for value in encoder.module.parameters() if value.is_floating_point()} - {torch.float32}
    if learned or not reps.requires_grad:
        got = ", ".join(sorted(map(str, learned))) or "no gradient to any weight"
        raise Unsupported(
            f"encoder {encoder.name!r}: expected float32 weights with gradients to train it, got {got}; open the "
            "original network, in float32"
        )
    return reps.shape[1]


def _encode(encoder: Encoder, x: Images) -> Reps:
    try:
        with fix_seed(0):  # whoever draws, draws the same
            return encoder(x.to(encoder.device))
    except (HoldfastError, MemoryError):
        raise
    except Exception as error:  # whatever a user's network raises about images of another shape
        raise Failed(
            f"encoder {encoder.name!r} fails on images {list(x.shape[1:])}: {first_line(error)}; give "
            "images that it takes: ?size= and ?channels= of the data spec change theirs"
        ) from error


def check_reopens(start: Encoder, student: Encoder, opens: str | None, x: Images, store: Store) -> None:
    """Refuse an encoder whose weights, once written, would not give the same encoder again.

    Its weights are written as they will be after the training, loaded strictly into a copy of its network, and opened
    by its spec. All of them must give the same representations, to the bit.

    Args:
        start: the encoder, as it was opened.
        student: what is trained of it, frozen and released, before the first step.
        opens: the spec that opened it; None: it lives in memory alone.
        x: two images, [2, C, H, W].
        store: where to write, for a moment.
    """
    # write, read back into a copy, and open by the spec
    name = f"reopened.{rank()}.{os.getpid()}.safetensors"  # a name of its own: several processes may ask at once
    path, network = store.folder / name, copy_of(start.module)
    store.write(name, lambda beside: save(student, beside, {}))
    try:
        network.get_submodule(start.root).load_state_dict(read_safetensors(path)[0], strict=True)
        again = copy_encoder(start, network) if opens is None else open_encoder(with_weights(opens, path))
    except (HoldfastError, RuntimeError) as error:
        raise Failed(
            f"encoder {start.name!r}: its weights cannot be read again once they are written ({first_line(error)}), so "
            "that training it would be in vain; give a network whose state dict holds all its weights"
        ) from error
    finally:
        store.delete(name)
    # and as a file of its source's own, which compares it itself
    if opens is not None and (ends := find_weights_suffix(opens)):
        name = f"reopened.{rank()}.{os.getpid()}{ends}"
        try:
            store.write(name, lambda beside: write(opens, student, beside))
        finally:
            store.delete(name)
    with torch.no_grad():
        expected = _encode(start, x)
        for candidate in (student, again):
            if not torch.equal(expected.cpu(), _encode(candidate, x).cpu()):
                raise Failed(
                    f"encoder {start.name!r}: expected the same representations once its weights are written and read "
                    "again, got others, so that training it would be in vain; keep all that it draws or learns in "
                    "parameters or persistent buffers"
                )
