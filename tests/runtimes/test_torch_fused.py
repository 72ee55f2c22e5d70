"""Fused convolutions: their algebra on the CPU against the declared net, themselves on a GPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from breakeven.errors import Mismatch, Unsupported
from breakeven.runtimes import load
from breakeven.workloads import data, fused, models, reference

from .test_torch_inference import apart, session_of
from .test_torch_training import settings_as_before
from .torch_cases import calls, cuda

__all__ = ["settings_as_before"]  # the fixture: used by every test here
pytestmark = pytest.mark.framework

LAST = {"layout": "channels-last"}


def plain(step: fused.Conv, x: Any, weight: Any, bias: Any, added: Any) -> Any:
    """relu(conv(x) + bias + added) as three operations, on any device."""
    from torch.nn import functional

    made = functional.conv2d(x, weight, bias, stride=step.conv.stride, padding=step.conv.padding)
    made = made if added is None else made + added
    return made.relu() if step.relu else made


@pytest.mark.parametrize("name", ["simple-cnn", "conv6", "resnet18", "resnet50"])
def test_folding_and_moving_biases_change_no_output(name: str) -> None:
    """In FP64, the net of fused steps carried out by plain operations."""
    import torch

    from breakeven.runtimes.torch import fused as torch_fused

    session = session_of(name)
    images = data.normalized(session.known, session.test.images[:3])
    device, layout = torch.device("cpu"), torch.channels_last
    net = torch_fused.net_of(session.model, session.weights, device, torch.float64, layout, plain)
    with torch.inference_mode():
        found = net(torch.from_numpy(images).double()).numpy()
    expected = reference.logits(session.model, session.weights, images)
    assert np.linalg.norm(found - expected) < 1e-10 * np.linalg.norm(expected)


def test_only_a_shortcut_that_is_added_once_gives_its_bias_away() -> None:
    from breakeven.runtimes.torch import fused as torch_fused

    net = fused.fused(models.model("resnet50"))
    biases = {s.name: np.full(s.out_shape[0], 1.0) for s in net.steps if isinstance(s, fused.Conv)}
    made = torch_fused.moved_biases(net, biases)
    without = [name for name, bias in made.items() if bias is None]
    assert len(without) == 4 and all("downsample" in name for name in without)
    total = sum(float(bias.sum()) for bias in made.values() if bias is not None)
    assert total == sum(float(bias.sum()) for bias in biases.values())


def test_readers_count_steps_residuals_and_the_head() -> None:
    net = fused.fused(models.model("resnet18"))
    assert fused.readers(net, net.last) == 1
    assert fused.readers(net, fused.IMAGES) == 1
    assert fused.readers(net, "maxpool") == 2  # the first block's convolution and its sum
    assert fused.readers(net, "nothing") == 0


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("resnet18", {"execution": "fused"}, "they need a CUDA device"),
        ("mobilenetv2", {"execution": "fused", "device": cuda()}, "fused convolutions: layer"),
        ("vit-tiny", {"execution": "fused", "device": cuda()}, "fused convolutions: layer"),
        ("resnet18", {"execution": "fused", "device": cuda(), "precision": "int8", **LAST}, "fused already"),
    ],
)
def test_reasons(name: str, changes: dict[str, Any], reason: str) -> None:
    told = load("torch").supports(calls(name, **changes))
    assert told is not None and reason in told


def test_it_is_of_cuda() -> None:
    import torch

    from breakeven.runtimes.torch import fused as torch_fused

    net, layout = models.model("resnet18"), torch.channels_last
    with pytest.raises(Unsupported, match="CUDA device"):
        torch_fused.fused_net(net, {}, torch.device("cpu"), torch.float32, layout)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])  # at 32x32 cuDNN leaves TF32 unused
@pytest.mark.parametrize("execution", ["fused", "cuda-graph+fused"])
@pytest.mark.parametrize("name", ["simple-cnn", "resnet18", "resnet50"])
def test_cuda_passes_every_check(name: str, execution: str, precision: str) -> None:
    asked = calls(name, device=cuda(), execution=execution, precision=precision, **LAST)
    found = dict(load("torch").prepare(asked).checks())
    assert all(check["ok"] for check in found.values()), found


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["channels-first", "channels-last"])
def test_fused_is_the_eager_call(layout: str) -> None:
    import torch

    tuning = {"device": cuda(), "precision": "fp32", "layout": layout}
    eager, driven = (session_of("resnet18", execution=e, **tuning) for e in ("eager", "cuda-graph+fused"))
    driven.build()
    for _ in range(len(eager.rows) + 2):
        eager.step()
        driven.step()
        torch.cuda.synchronize()
        assert apart(driven.seen.output, eager.seen.output) < 2e-5


def on_cpu(monkeypatch: pytest.MonkeyPatch, name: str, convolved: Any, **tuning: Any) -> Any:
    """A session whose fused steps are carried out on the CPU by another function than cuDNN's."""
    from functools import partial

    from breakeven.runtimes.torch import fused as torch_fused

    monkeypatch.setattr(torch_fused, "fused_net", partial(torch_fused.net_of, convolved=convolved))
    return session_of(name, execution="fused", **({"precision": "fp32"} | LAST | tuning))


def checked(session: Any) -> dict[str, Any]:
    from breakeven.runtimes.torch import inference_checks
    from breakeven.runtimes.torch.prepared import inference_handed_over

    return inference_checks.run(session, inference_handed_over(session).observed)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_fused_steps_pass_every_check(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    found = checked(on_cpu(monkeypatch, "resnet18", plain, precision=precision))
    assert all(check["ok"] for check in found.values()), found
    assert found["fused_precision"]["found"] == {} and "15 forms" in found["fused_precision"]["note"]


def test_a_few_rougher_steps_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six of twenty convolutions on inputs of 10 bits, too few to be seen in the error of the output."""
    import torch

    def rough(step: fused.Conv, x: Any, weight: Any, bias: Any, added: Any) -> Any:
        if step.out_shape[0] == 128 and x.dtype == torch.float32:
            x = (x.view(torch.int32) & ~0x1FFF).view(torch.float32)
        return plain(step, x, weight, bias, added)

    with pytest.raises(Mismatch, match="fused_precision") as told:
        checked(on_cpu(monkeypatch, "resnet18", rough))
    assert "layer2.0.conv1" in str(told.value) and "layer3" not in str(told.value)


def test_what_lies_on_the_device_is_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folded weights themselves, not copies; three shortcuts of ResNet18 gave their biases away."""
    session = on_cpu(monkeypatch, "resnet18", plain)
    held = list(session.running.parameters())
    places = {p.data_ptr() for p in held}
    assert {t.data_ptr() for t in session.fused_net.weights.values()} <= places
    convolutions = [s for s in session.fused_net.net.steps if isinstance(s, fused.Conv)]
    assert len(held) == 2 * len(convolutions) - 3 + 2


def test_a_shortcut_that_is_a_sum_gives_away_what_it_was_given() -> None:
    from breakeven.runtimes.torch import fused as torch_fused

    net = fused.fused(models.model("resnet18"))
    steps = {s.name: s for s in net.steps if isinstance(s, fused.Conv)}
    names = list(steps)
    a, b, c = (
        dataclasses.replace(steps[n], relu=False, residual=None, source=fused.IMAGES) for n in names[:3]
    )
    b = dataclasses.replace(b, residual=a.name)
    c = dataclasses.replace(c, residual=b.name)
    small = dataclasses.replace(net, steps=(a, b, c), last=c.name)
    made = torch_fused.moved_biases(
        small, {n: np.array([10.0**i]) for i, n in enumerate((a.name, b.name, c.name))}
    )
    assert made == {a.name: None, b.name: None, c.name: np.array([111.0])}
