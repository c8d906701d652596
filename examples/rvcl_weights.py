"""Make files that Holdfast opens of the encoders that the authors of RVCL published.

    git clone https://github.com/wzekai99/RVCL
    python examples/rvcl_weights.py RVCL           # writes rvcl/mnist_base.safetensors and so on
    holdfast reproduce rvcl-fig4-mnist --profile authors

The published files are pickles of whole networks. They are read as data: torch makes the few classes named below and
refuses every other one, so nothing in a file is run.
"""

import argparse
import pickle
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

KNOWN = [nn.Sequential, nn.Conv2d, nn.ZeroPad2d, nn.Linear, nn.ReLU, (nn.Flatten, "beta_crown.modules.Flatten")]
"""All that such a file may name; the last is the authors' own class, in whose place torch's stands."""

FOLDERS = {"unsupervised": "", "linear_evaluate": "linear_"}
"""Where the files are, and how names of ours begin: encoders, and encoders with a linear head."""


def convert(source: Path, target: Path) -> None:
    """Write the weights of one published network as safetensors."""
    with torch.serialization.safe_globals(KNOWN):
        network = torch.load(source, weights_only=True, map_location="cpu")
    weights = {name: value.contiguous() for name, value in network.state_dict().items()}
    save_file(weights, target, {"source": f"RVCL, {source.parent.name}/{source.name}"})


def main(words: list[str] | None = None) -> int:
    """Convert every file of a clone; return how many could not be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path, help="the authors' repository")
    parser.add_argument("--out", type=Path, default=Path("rvcl"), help="where recipes look for the files")
    asked = parser.parse_args(words)

    files = [(start, file) for folder, start in FOLDERS.items() for file in asked.clone.glob(f"models/{folder}/*.pkl")]
    if not files:
        parser.error(f"expected models/unsupervised/*.pkl in {asked.clone}, found none; is this a clone of RVCL?")
    asked.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for start, file in sorted(files):
        target = asked.out / f"{start}{file.stem}.safetensors"
        try:
            convert(file, target)
            print(target)
        except (pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
            failed += 1
            why = (str(error) or "it is empty").splitlines()[0]
            print(f"{file}: not converted: {why}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
