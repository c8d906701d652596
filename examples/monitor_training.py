"""Watch robustness while your own loop trains: measures every epoch, the network and its random numbers untouched.

python examples/monitor_training.py            # a classifier of digits, a minute
"""

import argparse
import sys

import torch
import torch.nn.functional as F
from torch import nn

from holdfast.sources.data import open_images
from holdfast.workflows.monitor import monitor

ATTACK = {"kind": "attacks", "name": "apgd", "steps": 10}
BALL = {"kind": "threats", "name": "linf", "radius": 0.1}
ASKED = [{"name": "universal_quantile", "attack": ATTACK, "ball": BALL}, "uniformity"]


def main(words: list[str] | None = None) -> int:
    """Train a small network on digits and print what it gains and loses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    asked = parser.parse_args(words)

    torch.manual_seed(0)
    seen = open_images("digits?part=train")
    x, y = seen.batch(0, len(seen)), torch.tensor(seen.labels)
    features = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten())
    head = nn.Linear(32 * 4 * 4, 10)
    adam = torch.optim.Adam([*features.parameters(), *head.parameters()], 2e-3)
    for epoch in range(asked.epochs):
        total = 0.0
        for rows in torch.randperm(len(x)).split(64):
            loss = F.cross_entropy(head(features(x[rows])), y[rows])
            adam.zero_grad()
            loss.backward()
            adam.step()
            total += float(loss.detach()) * len(rows) / len(x)
        now = monitor(features, "digits", ASKED, mean=0, std=1, images=200, attacked=50)
        value, low, high = (now[f"universal_quantile{end}"] for end in ("", ".low", ".high"))
        drift = f"{value:.2%} [{low:.2%}, {high:.2%}]"
        print(f"epoch {epoch + 1}: loss {total:.3f}, drift under attack {drift}, uniformity {now['uniformity']:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
