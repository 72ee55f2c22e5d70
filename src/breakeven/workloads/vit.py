"""The vision transformer as declared layers.

Knows nothing about which sizes have a name.
Dosovitskiy et al. 2021 (arXiv:2010.11929), normalisation before each part, no dropout; Tiny and Small are
DeiT's sizes (Touvron et al. 2021, arXiv:2012.12877) without its second token. Names are those of timm's state
dict, but that class token and positions are in `embed`.
"""

from __future__ import annotations

from breakeven.workloads.layers import (
    GELU,
    Attention,
    ClassToken,
    Conv2d,
    LayerNorm,
    Linear,
    Node,
    Residual,
    Tokens,
)

MLP_RATIO = 4
"""Hidden features of the two linear layers after attention, in widths."""


def vit(
    num_classes: int,
    input_shape: tuple[int, int, int],
    *,
    width: int,
    heads: int,
    depth: int = 12,
    patch: int = 4,
) -> tuple[Node, ...]:
    """A ViT over patches of `patch` x `patch` pixels: 64 of them in an image of 32x32.

    `input_shape` is (channels, height, width). Pixels that fill no patch are left out.
    """
    channels, *extents = input_shape
    pixels = (extents[0] // patch) * (extents[1] // patch)
    return (
        Conv2d(
            name="patch_embed.proj",
            in_channels=channels,
            out_channels=width,
            kernel=patch,
            stride=patch,
            bias=True,
        ),
        Tokens(name="embed", channels=width, pixels=pixels),
        *(node for index in range(depth) for node in _block(f"blocks.{index}", width, heads)),
        LayerNorm(name="norm", features=width),
        ClassToken(name="class_token"),
        Linear(name="head", in_features=width, out_features=num_classes),
    )


def _block(name: str, width: int, heads: int) -> tuple[Residual, Residual]:
    attention = (
        LayerNorm(name=f"{name}.norm1", features=width),
        Linear(name=f"{name}.attn.qkv", in_features=width, out_features=3 * width),
        Attention(name=f"{name}.attn.heads", heads=heads),
        Linear(name=f"{name}.attn.proj", in_features=width, out_features=width),
    )
    mlp = (
        LayerNorm(name=f"{name}.norm2", features=width),
        Linear(name=f"{name}.mlp.fc1", in_features=width, out_features=MLP_RATIO * width),
        GELU(name=f"{name}.mlp.act"),
        Linear(name=f"{name}.mlp.fc2", in_features=MLP_RATIO * width, out_features=width),
    )
    return (
        Residual(name=f"{name}.attn", main=attention, relu=False),
        Residual(name=f"{name}.mlp", main=mlp, relu=False),
    )
