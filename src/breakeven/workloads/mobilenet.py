"""MobileNetV2 as declared layers.

Knows nothing about which models have a name.
Sandler et al. 2018 (arXiv:1801.04381) at width 1 as torchvision builds it, names of its state dict included;
without the dropout before the classifier, which inference leaves out too.
"""

from __future__ import annotations

from breakeven.workloads.layers import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    Flatten,
    Linear,
    Node,
    ReLU6,
    Residual,
)

# Table 2 of the paper: expansion, channels, blocks, stride of the first block.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
STEM, LAST = 32, 1280
"""Channels of the first convolution and of the last one."""


def mobilenetv2(num_classes: int, input_shape: tuple[int, int, int]) -> tuple[Node, ...]:
    """Inverted residual blocks around depthwise convolutions; `input_shape` is (channels, height, width)."""
    nodes: list[Node] = [*_conv_bn_relu("features.0", input_shape[0], STEM, kernel=3, stride=2)]
    channels, index = STEM, 0
    for expansion, out, count, first_stride in STAGES:
        for block in range(count):
            index += 1
            name, stride = f"features.{index}", 1 if block else first_stride
            main = _inverted(f"{name}.conv", channels, out, expansion, stride)
            same = stride == 1 and channels == out
            nodes += [Residual(name=name, main=main, relu=False)] if same else main
            channels = out
    return (
        *nodes,
        *_conv_bn_relu(f"features.{index + 1}", channels, LAST, kernel=1),
        AdaptiveAvgPool2d(name="avgpool"),
        Flatten(name="flatten"),
        Linear(name="classifier.1", in_features=LAST, out_features=num_classes),
    )


def _inverted(name: str, channels: int, out: int, expansion: int, stride: int) -> tuple[Node, ...]:
    """1x1 to `expansion` times the channels (none where that is 1), depthwise 3x3, then 1x1 without ReLU."""
    wide = expansion * channels
    expand = _conv_bn_relu(f"{name}.0", channels, wide, kernel=1) if expansion != 1 else ()
    next_ = 1 if expand else 0
    return (
        *expand,
        *_conv_bn_relu(f"{name}.{next_}", wide, wide, kernel=3, stride=stride, groups=wide),
        Conv2d(name=f"{name}.{next_ + 1}", in_channels=wide, out_channels=out, kernel=1),
        BatchNorm2d(name=f"{name}.{next_ + 2}", channels=out),
    )


def _conv_bn_relu(
    name: str, channels: int, out: int, *, kernel: int, stride: int = 1, groups: int = 1
) -> tuple[Node, ...]:
    conv = Conv2d(
        name=f"{name}.0",
        in_channels=channels,
        out_channels=out,
        kernel=kernel,
        stride=stride,
        padding=kernel // 2,
        groups=groups,
    )
    return conv, BatchNorm2d(name=f"{name}.1", channels=out), ReLU6(name=f"{name}.2")
