"""The layers of a transformer as torch modules.

Knows nothing about how they are put together.
"""

import torch
from torch import nn
from torch.nn import functional

from breakeven.workloads import layers


def leaf(node: layers.TokenLeaf) -> nn.Module:
    """The module of a declared layer."""
    match node:
        case layers.LayerNorm():
            return nn.LayerNorm(node.features, eps=node.eps)
        case layers.GELU():
            return nn.GELU()
        case layers.Tokens():
            return Tokens(node.channels, node.pixels)
        case layers.Attention():
            return Attention(node.heads)
        case layers.ClassToken():
            return ClassToken()


class Tokens(nn.Module):
    """Images [n, c, h, w] as a class token and h * w tokens, with positions added: [n, 1 + h * w, c]."""

    def __init__(self, channels: int, pixels: int) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.empty(1, 1, channels))
        self.pos_embed = nn.Parameter(torch.empty(1, 1 + pixels, channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(2).transpose(1, 2)
        first = self.cls_token.expand(len(x), -1, -1)
        return torch.cat([first, tokens], dim=1) + self.pos_embed


class Attention(nn.Module):
    """[n, tokens, 3 c] -> [n, tokens, c] by the kernel that torch chooses."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # [n, tokens, 3 * heads * d] -> three of [n, heads, tokens, d]
        q, k, v = x.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return mixed.transpose(1, 2).flatten(2)


class ClassToken(nn.Module):
    """[n, tokens, c] -> [n, c]: the first of each."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 0]
