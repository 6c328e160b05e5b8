"""A small vision transformer without dropout, of layers that all have curvature rules.

Positions are told by fixed sines and cosines of both coordinates and the tokens are averaged at the end, so that there
is neither a learned position nor a class token (Beyer, Zhai & Kolesnikov, "Better plain ViT baselines", 2022).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lila.errors import ArgumentError


class ViT(nn.Module):
    """Patches, `depth` blocks of attention and MLP, the mean over tokens, a linear layer.

    Args:
        shape: (channels, height, width) of the images.
        outputs: number of classes.
        patch: side of a patch; the image is padded with zeros to whole patches.
        width: of a token; a multiple of 4 and of `heads`.
        depth: number of blocks.
        heads: of the attention.
    """

    positions: Tensor

    def __init__(
        self,
        shape: tuple[int, int, int],
        outputs: int,
        *,
        patch: int = 4,
        width: int = 64,
        depth: int = 4,
        heads: int = 4,
    ) -> None:
        super().__init__()
        if width % 4 or width % heads:
            raise ArgumentError(f"The width of a ViT must be a multiple of 4 and of its {heads} heads, but is {width}.")
        channels, height, side = shape
        self._arguments = {
            "shape": list(shape),
            "outputs": outputs,
            "patch": patch,
            "width": width,
            "depth": depth,
            "heads": heads,
        }
        rows, columns = -(-height // patch), -(-side // patch)
        self.padding = (0, columns * patch - side, 0, rows * patch - height)
        self.embed = nn.Conv2d(channels, width, patch, stride=patch)
        self.register_buffer("positions", _positions(rows, columns, width), persistent=False)
        self.blocks = nn.Sequential(*[_Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(F.pad(x, self.padding)).flatten(2).mT + self.positions  # (b, t, width)
        result: Tensor = self.head(self.norm(self.blocks(tokens)).mean(1))
        return result

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return dict(self._arguments)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        # Written out, as fused attention kernels have no second derivative, which the gradient of the evidence takes.
        q, k, v = self.qkv(self.attention_norm(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)  # (b, heads, t, t)
        x = x + self.merge((weights @ v).transpose(1, 2).flatten(2))
        result: Tensor = x + self.mlp(self.mlp_norm(x))
        return result


def _positions(rows: int, columns: int, width: int) -> Tensor:
    """Return sines and cosines of each token's row and column at width / 4 frequencies: shape (rows columns, width)."""
    frequencies = 10000.0 ** -torch.linspace(0, 1, width // 4)
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    angles = [place.flatten()[:, None] * frequencies for place in (y, x)]
    return torch.cat([wave(angle) for angle in angles for wave in (torch.sin, torch.cos)], dim=1)
