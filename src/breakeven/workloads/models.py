"""The models that can be named: small convolutional nets, VGG16, ResNets, MobileNetV2, ViTs and CycleGAN.

Knows nothing about frameworks or weights: it only declares layers.
simple-cnn-wX has X times as many channels and hidden features as simple-cnn.
ResNets: He et al. 2016 (arXiv:1512.03385) as torchvision builds them ("v1.5": a bottleneck's stride is in
its 3x3 convolution); the -cifar stem (3x3, stride 1, no pooling) is the usual change for 32x32 images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from breakeven.errors import UserError
from breakeven.workloads import cyclegan
from breakeven.workloads.convnets import conv6, conv6_seed, resnet20, vgg16
from breakeven.workloads.costs import forward_flops, layer_costs, parameter_count
from breakeven.workloads.layers import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    Flatten,
    Linear,
    MaxPool2d,
    Model,
    Node,
    ReLU,
    Residual,
)
from breakeven.workloads.mobilenet import mobilenetv2
from breakeven.workloads.vit import vit

InputShape = tuple[int, int, int]
IMAGENET_SHAPE: InputShape = (3, 224, 224)
Builder = Callable[[int, InputShape], tuple[Node, ...]]  # (num_classes, input_shape) -> nodes


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts:
    """What `list models` shows. FLOPs are of one forward pass of one image, 2 per multiply-accumulate."""

    name: str
    parameters: int  # 10 classes, 3x32x32
    parameters_1000: int  # 1000 classes; of 3x224x224 where the net is meant for it
    forward_flops_32: int  # 10 classes, 3x32x32
    forward_flops_224: int | None  # 1000 classes, 3x224x224; None where the net is not meant for it


def model(name: str, *, num_classes: int = 10, input_shape: InputShape = (3, 32, 32)) -> Model:
    """The named model for images of `input_shape` (channels, height, width).

    Raises UserError for an unknown name, no class, or an input too small for the net.
    """
    if name not in MODELS:
        near = get_close_matches(name, MODELS, n=3, cutoff=0.4)
        raise UserError(f"unknown model '{name}'; did you mean {' or '.join(near or sorted(MODELS))}?")
    if num_classes < 1 or min(input_shape) < 1:
        raise UserError(f"model {name}: give at least one class and an input shape such as 3x32x32")
    if name == cyclegan.NAME:
        made = cyclegan.model(input_shape)
    else:
        nodes = MODELS[name](num_classes, input_shape)
        made = Model(name=name, num_classes=num_classes, input_shape=input_shape, nodes=nodes)
    layer_costs(made)  # refuses an input that some layer can't take, before anything is built
    return made


def translates(name: str) -> bool:
    """Whether a net makes images of one domain from those of another: it has no classes and no scores."""
    return name == cyclegan.NAME


def for_imagenet(name: str) -> bool:
    """Whether a net is built for images of 3x224x224; it may take smaller ones, too."""
    return name in ("mobilenetv2", "vgg16", "vit-base-16") or (
        name.startswith("resnet") and not name.endswith(("-cifar", "resnet20"))
    )


def describe() -> list[ModelFacts]:
    """Facts of every model, in the order of MODELS."""
    return [_facts(name) for name in MODELS]


def _facts(name: str) -> ModelFacts:
    small = model(name)
    large = model(name, num_classes=1000, input_shape=IMAGENET_SHAPE) if for_imagenet(name) else None
    return ModelFacts(
        name=name,
        parameters=parameter_count(small),
        parameters_1000=parameter_count(large or model(name, num_classes=1000)),
        forward_flops_32=forward_flops(small),
        forward_flops_224=forward_flops(large) if large else None,
    )


def simple_cnn(num_classes: int, input_shape: InputShape, *, base: int = 32) -> tuple[Node, ...]:
    """Three 3x3 convolutions, each ReLU and 2x2 pooling, then two linear layers.

    Channels are base, 2 base and 4 base, hidden features 6 base: 32, 64, 128 and 192 if nothing is said.
    """
    channels, height, width = input_shape
    nodes: list[Node] = []
    for block, out in enumerate((base, 2 * base, 4 * base)):
        first = 3 * block
        nodes += [
            Conv2d(
                name=f"features.{first}",
                in_channels=channels,
                out_channels=out,
                kernel=3,
                padding=1,
                bias=True,
            ),
            ReLU(name=f"features.{first + 1}"),
            MaxPool2d(name=f"features.{first + 2}", kernel=2, stride=2),
        ]
        channels = out
    features = channels * (height // 8) * (width // 8)
    return (
        *nodes,
        Flatten(name="flatten"),
        Linear(name="classifier.0", in_features=features, out_features=6 * base),
        ReLU(name="classifier.1"),
        Linear(name="classifier.2", in_features=6 * base, out_features=num_classes),
    )


def _resnet(
    num_classes: int,
    input_shape: InputShape,
    *,
    depths: tuple[int, int, int, int],
    bottleneck: bool,
    cifar: bool,
) -> tuple[Node, ...]:
    nodes = list(_stem(input_shape[0], cifar))
    channels = 64
    for stage, (depth, width) in enumerate(zip(depths, (64, 128, 256, 512), strict=True)):
        for index in range(depth):
            stride = 2 if stage and not index else 1
            name = f"layer{stage + 1}.{index}"
            out = 4 * width if bottleneck else width
            main = (_bottleneck if bottleneck else _basic)(name, channels, width, stride)
            shortcut = _downsample(name, channels, out, stride) if stride != 1 or channels != out else ()
            nodes.append(Residual(name=name, main=main, shortcut=shortcut))
            channels = out
    return (
        *nodes,
        AdaptiveAvgPool2d(name="avgpool"),
        Flatten(name="flatten"),
        Linear(name="fc", in_features=channels, out_features=num_classes),
    )


def _stem(channels: int, cifar: bool) -> tuple[Node, ...]:
    kernel, stride, padding = (3, 1, 1) if cifar else (7, 2, 3)
    conv = Conv2d(
        name="conv1", in_channels=channels, out_channels=64, kernel=kernel, stride=stride, padding=padding
    )
    stem = (conv, BatchNorm2d(name="bn1", channels=64), ReLU(name="relu"))
    return stem if cifar else (*stem, MaxPool2d(name="maxpool", kernel=3, stride=2, padding=1))


def _basic(name: str, channels: int, width: int, stride: int) -> tuple[Node, ...]:
    return (
        *_conv_bn(name, 1, channels, width, kernel=3, stride=stride),
        ReLU(name=f"{name}.relu1"),
        *_conv_bn(name, 2, width, width, kernel=3),
    )


def _bottleneck(name: str, channels: int, width: int, stride: int) -> tuple[Node, ...]:
    return (
        *_conv_bn(name, 1, channels, width, kernel=1),
        ReLU(name=f"{name}.relu1"),
        *_conv_bn(name, 2, width, width, kernel=3, stride=stride),
        ReLU(name=f"{name}.relu2"),
        *_conv_bn(name, 3, width, 4 * width, kernel=1),
    )


def _conv_bn(
    name: str, index: int, channels: int, out: int, *, kernel: int, stride: int = 1
) -> tuple[Conv2d, BatchNorm2d]:
    conv = Conv2d(
        name=f"{name}.conv{index}",
        in_channels=channels,
        out_channels=out,
        kernel=kernel,
        stride=stride,
        padding=kernel // 2,
    )
    return conv, BatchNorm2d(name=f"{name}.bn{index}", channels=out)


def _downsample(name: str, channels: int, out: int, stride: int) -> tuple[Node, ...]:
    return (
        Conv2d(name=f"{name}.downsample.0", in_channels=channels, out_channels=out, kernel=1, stride=stride),
        BatchNorm2d(name=f"{name}.downsample.1", channels=out),
    )


def _resnet_family() -> dict[str, Builder]:
    depths = {
        "resnet18": ((2, 2, 2, 2), False),
        "resnet34": ((3, 4, 6, 3), False),
        "resnet50": ((3, 4, 6, 3), True),
        "resnet101": ((3, 4, 23, 3), True),
        "resnet152": ((3, 8, 36, 3), True),
    }
    return {
        f"{name}{'-cifar' if cifar else ''}": partial(_resnet, depths=counts, bottleneck=wide, cifar=cifar)
        for cifar in (False, True)
        for name, (counts, wide) in depths.items()
    }


def _width_series() -> dict[str, Builder]:
    """By name, narrowest first; the width between half and double is simple-cnn itself."""
    bases = {"-w0.25": 8, "-w0.5": 16, "": 32, "-w2": 64, "-w4": 128, "-w8": 256}
    return {f"simple-cnn{suffix}": partial(simple_cnn, base=base) for suffix, base in bases.items()}


def _generator(num_classes: int, input_shape: InputShape) -> tuple[Node, ...]:
    return cyclegan.generator(input_shape[0])


def _vit_family() -> dict[str, Builder]:
    sizes = {"vit-tiny": (192, 3), "vit-small": (384, 6), "vit-base": (768, 12)}
    small: dict[str, Builder] = {
        name: partial(vit, width=width, heads=heads) for name, (width, heads) in sizes.items()
    }
    return small | {"vit-base-16": partial(vit, width=768, heads=12, patch=16)}


MODELS: dict[str, Builder] = {
    **_width_series(),
    "conv6-seed": conv6_seed,
    "conv6": conv6,
    "vgg16": vgg16,
    "resnet20": resnet20,
    **_resnet_family(),
    "mobilenetv2": mobilenetv2,
    **_vit_family(),
    cyclegan.NAME: _generator,
}
