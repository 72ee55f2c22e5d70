"""INT8 of convolutional nets by steps: exact on the CPU, cuDNN's on a GPU, each planted fault found."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from breakeven.errors import Mismatch, Unsupported
from breakeven.workloads import calibration, data, fused, int8, layers, models, sources
from breakeven.workloads.layers import Model
from breakeven.workloads.tolerances import OUTPUT_ERROR, least_agreement
from breakeven.workloads.weights import initial_weights

from .test_torch_training import settings_as_before
from .torch_cases import calls, cuda

__all__ = ["settings_as_before"]  # the fixture: used by every test here
pytestmark = pytest.mark.framework

RECIPE = "minmax/64/train"
ON_CUDA: dict[str, Any] = {"precision": "int8", "layout": "channels-last", "calibration": RECIPE}
FORM = "fused"


def digits(n: int) -> Any:
    known = data.entry("digits")
    return data.normalized(known, calibration.images(f"minmax/{n}/train", known))


@cache
def made_of(name: str, multiple: int = 1) -> tuple[int8.Plan, dict[str, Any]]:
    """(the net in int8 by 64 images of digits, its weights)."""
    import torch

    from breakeven.runtimes.torch import int8_cuda

    net = fused.fused(models.model(name))
    weights = sources.of(calls(name).work, net.model)
    made = int8_cuda.planned(net, weights, digits(64), torch.device("cpu"))
    return int8.padded(made, multiple), weights


def graphs_on_cpu(name: str, batch: int = 4) -> Any:
    """What runs on a GPU, with exact steps of the CPU in the place of cuDNN's."""
    import torch

    from breakeven.runtimes.torch import cudnn_graphs, int8_cuda, integer

    def convolution(made: int8.Conv, batch: int) -> tuple[integer.Convolve, cudnn_graphs.Planned]:
        drawn = cudnn_graphs.Drawn(graph=None, tensors={})
        plan = cudnn_graphs.Planned(form=FORM, drawn=drawn, index=0, name="exact", workspace=0)
        return integer.exact(made), plan

    plan, weights = made_of(name, 16)
    return int8_cuda.Graphs(
        plan=plan,
        weights=weights,
        head=integer.head(plan.net, weights, torch.device("cpu")),
        batch=batch,
        device=torch.device("cpu"),
        convolution=convolution,
        follow=lambda: None,
    )


def session_on_cpu(name: str) -> Any:
    """A case of INT8 as on a GPU, but for who convolves: every check of it runs."""
    from breakeven.runtimes.torch import inference

    session = inference.build(calls(name, layout="channels-last"))
    graphs, inputs = graphs_on_cpu(name), session.calls.inputs
    asked = dataclasses.replace(session.case.tuning, precision="int8", calibration=RECIPE)
    return dataclasses.replace(
        session,
        case=dataclasses.replace(session.case, tuning=asked),
        integers=graphs,
        calls=inference.Calls(inputs=inputs, call=lambda i: graphs(inputs[i]), ready=graphs.build),
    )


def checks_of(session: Any) -> Mapping[str, Any]:
    from breakeven.runtimes.torch import inference_checks, prepared

    return inference_checks.run(session, prepared.inference_handed_over(session).observed)


def loop(made: int8.Conv, values: Any, residual: Any) -> Any:
    """A step as it is defined, one integer at a time; [c, h, w] in and out."""
    node, (out, height, width) = made.step.conv, made.step.out_shape
    padded = np.pad(values.astype(np.int64), ((0, 0), (node.padding,) * 2, (node.padding,) * 2))
    found = np.empty((out, height, width), np.int8)
    for o, i, j in np.ndindex(found.shape):
        total = 0
        for c, k, m in np.ndindex(made.weight.shape[1:]):
            total += int(made.weight[o, c, k, m]) * int(padded[c, i * node.stride + k, j * node.stride + m])
        x = np.float32(total) + made.bias[o]
        if made.ratio is not None:
            x = x + np.float32(residual[o, i, j]) * made.ratio[o]
        x = x * made.multiplier[o]
        found[o, i, j] = min(max(np.rint(max(x, 0) if made.step.relu else x), -128), 127)
    return found


@pytest.mark.parametrize("relu", [True, False])
def test_an_exact_step_is_the_loop_of_integers(relu: bool) -> None:
    import torch

    from breakeven.runtimes.torch import integer

    main = layers.Conv2d(name="c", in_channels=3, out_channels=4, kernel=3, stride=2, padding=1, bias=True)
    short = layers.Conv2d(name="s", in_channels=3, out_channels=4, kernel=1, stride=2)
    block = layers.Residual(name="b", main=(main,), shortcut=(short,), relu=relu)
    net = fused.fused(Model(name="net", num_classes=2, input_shape=(3, 5, 5), nodes=(block,)))
    rng = np.random.Generator(np.random.Philox(3))
    shapes = {"c.weight": (4, 3, 3, 3), "c.bias": (4,), "s.weight": (4, 3, 1, 1)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    plan = int8.plan(net, weights, {"images": 2.0, "s": 3.0, "c": 4.0})
    images = rng.normal(size=(2, 3, 5, 5)).astype(np.float32)
    values = dict(integer.on_cpu(plan, weights).values(torch.from_numpy(images)))
    first, second = plan.steps
    assert isinstance(first, int8.Conv) and isinstance(second, int8.Conv)
    for i in range(2):
        q = np.clip(np.rint(images[i] * np.float32(1 / plan.scales["images"])), -128, 127)
        assert (values["images"][i].numpy() == q).all()
        added = loop(first, q, None)
        assert (values["s"][i].numpy() == added).all()
        assert (values["c"][i].numpy() == loop(second, q, added)).all()
    extremes = values["c"].flatten().tolist()
    assert max(extremes) == 127 and (min(extremes) == 0) == relu  # the range is too small: some saturate


@pytest.mark.parametrize(
    "name", ["simple-cnn", "conv6-seed", "resnet18", pytest.param("resnet50", marks=pytest.mark.slow)]
)
def test_int8_answers_as_fp32_does(name: str) -> None:
    import torch

    from breakeven.runtimes.torch import integer, nets

    plan, weights = made_of(name)
    images = torch.from_numpy(digits(88)[64:])  # other ones than those calibrated on
    with torch.inference_mode():
        found = integer.on_cpu(plan, weights)(images)
        exact = nets.build(plan.net.model, weights).eval()(images)
    error = float((found - exact).norm() / exact.norm())
    assert 1e-4 < error < OUTPUT_ERROR["int8"] / 5
    same = float((found.argmax(1) == exact.argmax(1)).float().mean())
    assert same >= least_agreement("int8", len(images), trained=True)


@pytest.mark.parametrize("name", ["simple-cnn-w0.25", "resnet18"])
def test_channels_that_are_filled_up_change_no_integer(name: str) -> None:
    import torch

    from breakeven.runtimes.torch import integer

    plan, weights = made_of(name)
    images = torch.from_numpy(digits(4))
    wide = dict(integer.on_cpu(int8.padded(plan, 16), weights).values(images))
    for step, value in integer.on_cpu(plan, weights).values(images):
        own = value.shape[1]
        assert wide[step].shape[1] == -(-own // 16) * 16
        assert torch.equal(wide[step][:, :own], value) and not wide[step][:, own:].any()


def test_ranges_are_the_extremes_of_the_net_in_fp32() -> None:
    import torch

    from breakeven.runtimes.torch import integer, nets

    net = fused.fused(models.model("resnet18"))
    weights, images = initial_weights(net.model, 0), digits(8)
    found = integer.reaches(net, weights, images, 3, torch.device("cpu"))
    seen: dict[str, float] = {}
    plain = nets.build(net.model, weights).eval()
    for layer in ("maxpool", "layer1.0", "layer4.1"):
        plain.get_submodule(layer).register_forward_hook(
            lambda module, args, made, layer=layer: seen.update({layer: float(made.abs().max())})
        )
    with torch.inference_mode():
        plain(torch.from_numpy(images))
    for layer, value in (
        ("maxpool", "maxpool"),
        ("layer1.0", "layer1.0.conv2"),
        ("layer4.1", "layer4.1.conv2"),
    ):
        assert found[value] == pytest.approx(seen[layer], rel=1e-5)
    assert found["images"] == float(np.abs(images).max())


def test_a_value_is_let_go_after_its_last_reader() -> None:
    from breakeven.runtimes.torch import integer

    net = fused.fused(models.model("resnet18"))
    done = dict(zip((step.name for step in net.steps), integer.last_uses(net), strict=True))
    assert done["conv1"] == ["images"] and done["maxpool"] == ["conv1"]
    assert done["layer1.0.conv1"] == [] and sorted(done["layer1.0.conv2"]) == ["layer1.0.conv1", "maxpool"]
    assert net.last not in {name for names in done.values() for name in names}


@pytest.mark.parametrize(
    ("name", "convs", "pools"),
    [("simple-cnn", 3, 3), pytest.param("resnet18", 20, 1, marks=pytest.mark.slow)],
)
def test_every_check_passes_of_a_session_with_exact_steps(
    name: str, convs: int, pools: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from breakeven.runtimes.torch import inference_checks

    monkeypatch.setattr(inference_checks, "AGREEMENT_IMAGES", 32)
    found = dict(checks_of(session_on_cpu(name)))
    assert found["precision"]["found"] == {"conv": convs}
    assert found["integers"]["found"] == {} and f"{1 + convs + pools} values" in found["integers"]["note"]
    assert found["integer_sums"]["found"] is None and "no layer" in found["integer_sums"]["note"]
    assert found["agreement"]["ok"] and found["output_error"]["found"] < 0.1


def altered(graphs: Any, name: str, **changes: Any) -> None:
    """Puts a step with other numbers in the place of a planned one."""
    from breakeven.runtimes.torch import integer

    (made,) = (s for s in graphs.plan.steps if isinstance(s, int8.Conv) and s.step.name == name)
    wrong = dataclasses.replace(made, **{key: change(getattr(made, key)) for key, change in changes.items()})
    net = graphs.nets[0]
    graphs.nets[0] = dataclasses.replace(net, convolve={**net.convolve, name: integer.exact(wrong)})


@pytest.mark.parametrize(
    "changes",
    [
        {"multiplier": lambda m: m * np.float32(1.02)},
        {"bias": lambda b: b + 200},
        {"ratio": lambda r: r * np.float32(1.02)},
        {"weight": lambda w: np.where(w == 127, 126, w).astype(np.int8)},
    ],
    ids=["multiplier", "bias", "ratio", "weight"],
)
def test_a_step_with_a_wrong_number_is_named(changes: dict[str, Any]) -> None:
    """Of 2 %: no check of the answers would see it."""
    session = session_on_cpu("resnet18")
    session.build()
    altered(session.integers, "layer2.1.conv2", **changes)
    with pytest.raises(Mismatch, match=r"integers: asked \{\}, found \{'layer2\.1\.conv2': ") as raised:
        checks_of(session)
    assert raised.value.outcome == "output_mismatch"


@pytest.mark.parametrize("dtype", ["exact", "float32", "bfloat16"])
def test_sums_that_are_no_integers_are_found(dtype: str) -> None:
    """Each step's own integers are right in every type: only sums beyond 24 bits tell."""
    import torch
    from torch.nn import functional

    from breakeven.runtimes.torch import integer

    graphs = graphs_on_cpu("resnet18-cifar")
    exact = graphs.convolution

    def convolution(made: int8.Conv, batch: int) -> Any:
        after, node = integer.finish(made), made.step.conv
        weight = torch.from_numpy(made.weight).to(getattr(torch, dtype))

        def convolve(values: Any, residual: Any) -> Any:
            sums = functional.conv2d(
                values.to(weight.dtype), weight, stride=node.stride, padding=node.padding
            )
            return after(sums, residual)

        return convolve, exact(made, batch)[1]

    if dtype == "exact":
        assert graphs.witness() == 1.0
        return
    graphs.convolution = convolution
    share = graphs.witness()
    assert share is not None and share < 0.5


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from breakeven.runtimes.torch import cudnn_graphs

    monkeypatch.setitem(sys.modules, "cudnn", None)
    with pytest.raises(Unsupported, match=r"need nvidia-cudnn-frontend .*\[torch,int8-cuda\]") as raised:
        cudnn_graphs.library()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("form", ["fused", "fused, sums as float", "sums"])
def test_a_graph_is_drawn_with_every_type_and_stride(form: str) -> None:
    """What cuDNN is asked for: needs its package, but no GPU."""
    cudnn = pytest.importorskip("cudnn", reason="nvidia-cudnn-frontend is not installed")
    from breakeven.runtimes.torch import cudnn_graphs

    plan, _ = made_of("resnet18", 16)
    (made,) = (s for s in plan.steps if isinstance(s, int8.Conv) and s.step.name == "layer2.0.conv2")
    drawn = cudnn_graphs.draw(cudnn, made, 4, form)
    kind, whole = cudnn.data_type, form != "sums"
    names = {"x", "w", "y"} | ({"bias", "multiplier", "residual", "ratio"} if whole else set())
    assert set(drawn.tensors) == names
    seen = {
        n: (tuple(t.get_dim()), tuple(t.get_stride()), t.get_data_type()) for n, t in drawn.tensors.items()
    }
    maps = ((4, 128, 4, 4), (2048, 1, 512, 128))
    assert seen["x"] == (*maps, kind.INT8) and seen["y"] == (*maps, kind.INT8 if whole else kind.INT32)
    assert seen["w"] == ((128, 128, 3, 3), (1152, 1, 384, 128), kind.INT8)
    operations = [(n.node_type.name, n.params.get("mode"), n.compute_data_type) for n in drawn.graph.nodes]
    assert operations[0] == ("CONV_FPROP", None, kind.INT32)
    assert [mode for _, mode, _ in operations[1:]] == (["add", "mul", "add", "mul", "relu"] if whole else [])
    assert all(of == kind.FLOAT for _, _, of in operations[1:])
    if whole:
        assert seen["bias"] == seen["ratio"] == ((1, 128, 1, 1), (128, 1, 128, 128), kind.FLOAT)
        assert seen["residual"] == (*maps, kind.INT8)
    virtual = [t for t in drawn.graph.tensors.values() if t.get_is_virtual()]
    types = [kind.FLOAT if "float" in form else kind.INT32, *[kind.FLOAT] * 4]
    assert [t.get_data_type() for t in virtual] == (types if whole else [])


@pytest.mark.gpu
@pytest.mark.parametrize("execution", ["eager", "cuda-graph"])
@pytest.mark.parametrize("name", ["simple-cnn", "resnet18-cifar", "resnet50"])
def test_gpu_integers_are_the_exact_ones_and_every_check_passes(name: str, execution: str) -> None:
    import torch

    from breakeven.runtimes.torch import inference, integer

    pytest.importorskip("cudnn", reason="nvidia-cudnn-frontend is not installed")
    session = inference.build(calls(name, device=cuda(), execution=execution, **ON_CUDA))
    built = session.build()
    graphs, images = session.integers, session.calls.inputs[0]
    assert graphs is not None and sum(built["forms"].values()) == sum(built["plans"].values()) > 2
    exact = integer.on_cpu(graphs.plan, session.weights)
    with torch.inference_mode():
        mine, theirs = graphs.net().values(images), exact.values(images.cpu())
        for (step, found), (_, right) in zip(mine, theirs, strict=True):
            assert torch.equal(found.cpu(), right), step
        assert torch.allclose(session.calls.call(0).cpu(), exact(images.cpu()), rtol=1e-5, atol=1e-5)
    found = dict(checks_of(session))
    assert found["integers"]["found"] == {} and found["dtype_in_hardware"]["found"] == "native"
    assert found["integer_sums"]["found"] == (None if name == "simple-cnn" else 1.0)


@pytest.mark.gpu
def test_gpu_a_wrong_scale_and_sums_in_half_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch.nn import functional

    from breakeven.runtimes.torch import inference, integer

    pytest.importorskip("cudnn", reason="nvidia-cudnn-frontend is not installed")
    session = inference.build(calls("resnet18-cifar", device=cuda(), **ON_CUDA))
    session.build()
    graphs = session.integers
    assert graphs is not None
    (made,) = (s for s in graphs.plan.steps if isinstance(s, int8.Conv) and s.step.name == "layer2.1.conv2")
    wrong = dataclasses.replace(made, multiplier=made.multiplier * np.float32(1.02))
    right = graphs.nets[0]
    planted = {**right.convolve, "layer2.1.conv2": graphs.convolution(wrong, graphs.batch)[0]}
    graphs.nets[0] = dataclasses.replace(right, convolve=planted)
    with pytest.raises(Mismatch, match=r"integers.*layer2\.1\.conv2"):
        checks_of(session)
    graphs.nets[0] = right
    cudnns = graphs.convolution

    def convolution(step: int8.Conv, batch: int) -> Any:
        after, node = integer.finish(step, graphs.device), step.step.conv
        weight = torch.from_numpy(step.weight).to(graphs.device).half()

        def convolve(values: Any, residual: Any) -> Any:
            sums = functional.conv2d(values.half(), weight, stride=node.stride, padding=node.padding)
            return after(sums, residual).contiguous(memory_format=integer.LAST)

        return convolve, cudnns(step, batch)[1]

    graphs.convolution = convolution
    with pytest.raises(Mismatch, match="integer_sums"):
        checks_of(session)


@pytest.mark.gpu
def test_gpu_a_captured_call_is_the_eager_one_bit_for_bit() -> None:
    import torch

    from breakeven.runtimes.torch import inference

    pytest.importorskip("cudnn", reason="nvidia-cudnn-frontend is not installed")
    scores, scales = [], []
    for execution in ("eager", "cuda-graph"):
        session = inference.build(calls("resnet18-cifar", device=cuda(), execution=execution, **ON_CUDA))
        session.build()
        assert session.integers is not None
        scales.append(session.integers.plan.scales)
        with torch.inference_mode():
            scores.append([session.calls.call(index).clone() for index in range(len(session.rows))])
    assert scales[0] == scales[1]
    assert all(torch.equal(eager, captured) for eager, captured in zip(*scores, strict=True))
    assert not torch.equal(scores[0][0], scores[0][1])
