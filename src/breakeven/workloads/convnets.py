"""Convolutional nets of other studies, as declared layers: two called Conv6, VGG16 and ResNet20.

Knows nothing about which models have a name.
Two different nets go by the name of Conv6. The one with six convolutions is Frankle and Carbin's (2019,
arXiv:1803.03635). The other, of a later comparison of frameworks (arXiv:2603.20920, Table II), has three of
them, each with batch norm; its 397,412 parameters are those of 100 classes.
"""

from __future__ import annotations

from itertools import pairwise

from breakeven.workloads.layers import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    Flatten,
    Linear,
    MaxPool2d,
    Node,
    ReLU,
    Residual,
    Subsample,
)

InputShape = tuple[int, int, int]

VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Channels of the convolutions before each pooling: configuration D of Simonyan and Zisserman 2015."""

CONV6 = ((64, 64), (128, 128), (256, 256))


def conv6_seed(num_classes: int, input_shape: InputShape) -> tuple[Node, ...]:
    """Three times convolution, batch norm, 2x2 pooling and ReLU in this order; the mean of what is left.

    The pooling before the ReLU is as published; the result is that of the usual order.
    """
    nodes: list[Node] = []
    channels = input_shape[0]
    for index, out in enumerate((64, 128, 256), start=1):
        nodes += [
            _conv(f"conv{index}", channels, out),
            BatchNorm2d(name=f"bn{index}", channels=out),
            MaxPool2d(name=f"pool{index}", kernel=2, stride=2),
            ReLU(name=f"relu{index}"),
        ]
        channels = out
    return (
        *nodes,
        AdaptiveAvgPool2d(name="avgpool"),
        Flatten(name="flatten"),
        Linear(name="fc2", in_features=channels, out_features=num_classes),
    )


def conv6(num_classes: int, input_shape: InputShape) -> tuple[Node, ...]:
    """Three times two 3x3 convolutions and 2x2 pooling, then linear layers of 256, 256 and `num_classes`."""
    return _pooled(CONV6, num_classes, input_shape, hidden=256, dropout=False)


def vgg16(num_classes: int, input_shape: InputShape) -> tuple[Node, ...]:
    """Thirteen convolutions and a classifier of 4096, 4096 and `num_classes` over the map that is left.

    At 224x224 that map is 7x7: with 1000 classes this is torchvision's net, names included. At 32x32 it is
    one pixel: the classifier begins with 512 features instead of 25,088 and the net has 33,638,218 parameters
    with 10 classes (torchvision's would repeat the pixel 49 times, to the same effect at 3.4 times the size).
    Without the two layers of dropout, which inference leaves out too: their masks differ between frameworks,
    and losses could not be held against each other.
    """
    return _pooled(VGG16, num_classes, input_shape, hidden=4096, dropout=True)


def resnet20(num_classes: int, input_shape: InputShape) -> tuple[Node, ...]:
    """The net of He et al. 2016, section 4.2, for 32x32: three stages of three blocks, shortcuts without
    parameters."""
    nodes: list[Node] = [
        _conv("conv1", input_shape[0], 16, bias=False),
        BatchNorm2d(name="bn1", channels=16),
        ReLU(name="relu"),
    ]
    channels = 16
    for stage, width in enumerate((16, 32, 64), start=1):
        for index in range(3):
            name, stride = f"layer{stage}.{index}", 2 if stage > 1 and not index else 1
            main = (
                _conv(f"{name}.conv1", channels, width, stride=stride, bias=False),
                BatchNorm2d(name=f"{name}.bn1", channels=width),
                ReLU(name=f"{name}.relu1"),
                _conv(f"{name}.conv2", width, width, bias=False),
                BatchNorm2d(name=f"{name}.bn2", channels=width),
            )
            shortcut = Subsample(
                name=f"{name}.downsample", in_channels=channels, out_channels=width, stride=stride
            )
            nodes.append(Residual(name=name, main=main, shortcut=(shortcut,) if stride != 1 else ()))
            channels = width
    return (
        *nodes,
        AdaptiveAvgPool2d(name="avgpool"),
        Flatten(name="flatten"),
        Linear(name="linear", in_features=channels, out_features=num_classes),
    )


def _pooled(
    blocks: tuple[tuple[int, ...], ...],
    num_classes: int,
    input_shape: InputShape,
    *,
    hidden: int,
    dropout: bool,
) -> tuple[Node, ...]:
    """Blocks of convolutions with ReLU, each block pooled, then three linear layers.

    Names are torchvision's: a number counts every layer, those of `dropout` too, which are left out.
    """
    nodes: list[Node] = []
    channels, height, width = input_shape
    for block in blocks:
        for out in block:
            nodes.append(_conv(f"features.{len(nodes)}", channels, out))
            nodes.append(ReLU(name=f"features.{len(nodes)}"))
            channels = out
        nodes.append(MaxPool2d(name=f"features.{len(nodes)}", kernel=2, stride=2))
        height, width = height // 2, width // 2
    step = 3 if dropout else 2
    extents = (channels * height * width, hidden, hidden, num_classes)
    nodes.append(Flatten(name="flatten"))
    for index, (taken, made) in enumerate(pairwise(extents)):
        nodes.append(Linear(name=f"classifier.{step * index}", in_features=taken, out_features=made))
        nodes.append(ReLU(name=f"classifier.{step * index + 1}"))
    return tuple(nodes[:-1])


def _conv(name: str, channels: int, out: int, *, stride: int = 1, bias: bool = True) -> Conv2d:
    return Conv2d(
        name=name, in_channels=channels, out_channels=out, kernel=3, stride=stride, padding=1, bias=bias
    )
