"""Fine-tune a narrow ResNet-18 of timm that knows upright digits on turned ones, and learn how far they are turned.

1. Plain PyTorch: the network is trained on upright images, with batch norm in training mode.
2. `lila.freeze_statistics`: from here on batch norm is an affine map of each channel.
3. `lila.fit` with `prior_mean="start"`: the network is fine-tuned on images that were turned by up to 90 degrees. The
   prior is centred at the weights of step 1, and the ranges of the augmentation start at zero.

    LILA_DATA=path/to/data python examples/fine_tuning.py
"""

import argparse
import time
from typing import cast

import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lila

Images = tuple[Tensor, Tensor]


def load(name: str, transform: str, count: int, tests: int, seed: int) -> tuple[Images, Images]:
    """Return `count` training images and `tests` test images with their labels."""
    task = lila.load_data(lila.Recipe(name, transform, subset=count, seed=seed), in_memory=True)
    (x, y), train = cast(Images, task.test), cast(Images, task.train)
    return train, (x[:tests], y[:tests])


def train(net: nn.Module, data: Images, epochs: int, batch_size: int = 64) -> None:
    """Train a network with plain PyTorch."""
    x, y = data
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3)
    steps = epochs * -(-len(x) // batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=3e-3, total_steps=steps)
    net.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(batch_size):
            optimiser.zero_grad()
            F.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()
            schedule.step()


@torch.no_grad()
def accuracy(net: nn.Module, data: Images) -> float:
    """Return the share of images that the network in evaluation mode classifies correctly."""
    net.eval()
    x, y = data
    outputs = torch.cat([net(batch) for batch in x.split(250)])
    return float((outputs.argmax(1) == y).double().mean())


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist", help="the data set")
    parser.add_argument("--width", type=int, default=16, help="channels of the first stage; those of ResNet-18 are 64")
    parser.add_argument("--upright", type=int, default=3000, help="upright training images")
    parser.add_argument("--upright-epochs", type=int, default=5)
    parser.add_argument("--turned", type=int, default=1000, help="turned training images")
    parser.add_argument("--turned-epochs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=8, help="views of each image in hyper-steps and predictions")
    parser.add_argument("--tests", type=int, default=1000, help="test images")
    parser.add_argument("--plain", action="store_true", help="fine-tune without invariance, to compare")
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()

    torch.manual_seed(a.seed)
    upright, upright_test = load(a.data, "original", a.upright, a.tests, a.seed)
    turned, turned_test = load(a.data, "partially-rotated", a.turned, a.tests, a.seed + 1)
    widths = tuple(a.width * factor for factor in (1, 2, 4, 8))
    net = timm.create_model("resnet18", in_chans=1, num_classes=10, channels=widths)

    start = time.process_time()
    train(net, upright, a.upright_epochs)
    print(f"Trained on {a.upright} upright images ({time.process_time() - start:.0f} s of CPU time).", flush=True)
    print(f"  accuracy on upright images {accuracy(net, upright_test):.1%}, on turned {accuracy(net, turned_test):.1%}")

    start = time.process_time()
    lila.freeze_statistics(net)
    run = lila.fit(
        net,
        turned,
        None if a.plain else lila.Affine2d(),
        test=turned_test,
        prior_mean="start",
        epochs=a.turned_epochs,
        samples=a.samples,
        lr=1e-3,
        eta_lr=0.05,
        seed=a.seed,
        progress="lines",
    )
    print(f"Fine-tuned on {a.turned} turned images ({time.process_time() - start:.0f} s of CPU time).")
    print(run.summary())
    print(f"  accuracy on upright images {accuracy(run.model, upright_test):.1%}, ", end="")
    print(f"on turned {accuracy(run.model, turned_test):.1%}")


if __name__ == "__main__":
    main()
