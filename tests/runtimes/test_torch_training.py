"""Training with torch on the CPU: steps, epochs, parity in FP64, evaluation, saving."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from breakeven.errors import Mismatch, Unsupported
from breakeven.records.case import Device, Recipe
from breakeven.runtimes import Prepared, load

from .torch_cases import TUNINGS, case, cuda

pytestmark = pytest.mark.framework


def prepare(**changes: Any) -> Prepared:
    return load("torch").prepare(case(**changes))


def run(prepared: Prepared, steps: int) -> tuple[float, ...]:
    for _ in range(steps):
        prepared.step()
    return prepared.losses()


@pytest.fixture(autouse=True)
def settings_as_before() -> Any:
    """Cases set global settings from scratch in processes of their own; here they share one."""
    import torch

    from breakeven.runtimes.torch import precision

    threads, benchmark, values = (
        torch.get_num_threads(),
        torch.backends.cudnn.benchmark,
        precision.read_back(),
    )
    yield
    torch.set_num_threads(threads)
    torch.backends.cudnn.benchmark = benchmark
    for name, setting in precision._settings().items():
        setting.fp32_precision = values[name]


@pytest.fixture(scope="module")
def reference() -> tuple[float, ...]:
    from breakeven.runtimes.torch.parity import fp64_losses

    return fp64_losses(case(batch=16))


@pytest.mark.parametrize("name", [name for name in TUNINGS if name != "as-written"])
def test_ten_fp64_losses_agree_on_every_tuning(name: str, reference: tuple[float, ...]) -> None:
    from breakeven.runtimes.torch.parity import fp64_losses

    assert fp64_losses(case(batch=16, **TUNINGS[name])) == pytest.approx(reference, rel=1e-8)


def test_training_learns_digits() -> None:
    prepared = prepare(residency="device", loss_sync="epoch")
    assert prepared.steps_per_epoch == 22 and prepared.samples_per_step == 64
    losses = run(prepared, 2 * 22)
    assert len(losses) == 22  # the last epoch's: the buffer on the device holds one epoch
    assert losses[-1] < 1.2 and prepared.losses() == ()
    scored = prepared.evaluate(None)
    assert (scored.steps, scored.samples) == (6, 360)  # the tail of 40 is scored, too
    assert scored.accuracy is not None and scored.accuracy > 0.5
    assert prepared.parameters == 488_586
    assert set(prepared.hashes) == {"weights", "order", "augment"}


@pytest.mark.parametrize("residency", ["host", "device"])
def test_the_parts_in_order_are_a_step(residency: str) -> None:
    import torch

    from breakeven.runtimes.torch import prepared, session

    built = [session.build(case(batch=256, residency=residency)) for _ in range(2)]
    whole, split = map(prepared.handed_over, built)
    parts = split.parts
    assert parts is not None
    second = {"host": "copy", "device": "cut"}[residency]
    assert list(parts) == ["data_wait", second, "forward", "backward", "optimizer", "loss_read"]
    for _ in range(7):  # five steps an epoch: the sixth begins another
        whole.step()
        for part in parts.values():
            part()
    assert whole.losses() == split.losses()
    one, other = (b.training.net.state_dict() for b in built)
    assert all(torch.equal(one[name], other[name]) for name in one)
    for batches in (b.batches for b in built):
        batches.close()


@pytest.mark.parametrize("tuning", ["as-written", "on-device"])
def test_the_parts_of_real_steps_add_up_and_have_shares(tuning: str) -> None:
    from breakeven.analysis.shares import SHARES, splits_of
    from breakeven.records.canonical import to_json
    from breakeven.records.lines import Attempt
    from breakeven.timing import Parts, Plan, sample_training

    asked = case(batch=8, **TUNINGS[tuning])
    prepared = load("torch").prepare(asked)
    plan = Plan(budget_s=20.0, warmup_s=1.0, eval_s=0.0, tight=1.0, boundary=False)
    parts = sample_training(prepared, plan).parts
    prepared.close()
    assert isinstance(parts, Parts), parts
    assert sum(parts.exposed_ms.values()) == pytest.approx(parts.step_ms)
    assert set(parts.busy_ms) == set(parts.enqueue_ms) == set(parts.exposed_ms) - {"sync"}
    assert all(ms > 0 for ms in parts.busy_ms.values())
    line = Attempt(
        case_id="c", work_id="w", tuning_id="t", work=asked.work, tuning=asked.tuning, device=asked.device,
        replicate=0, order_index=0, started_utc="", outcome="ok", region="train_step", phases=to_json(parts),
    )  # fmt: skip
    splits = splits_of([line])
    assert not isinstance(splits, str)
    assert sum(splits[0].shares.values()) == pytest.approx(1) and set(splits[0].shares) <= set(SHARES)


def test_losses_of_both_kinds_are_equal() -> None:
    assert run(prepare(), 3) == pytest.approx(run(prepare(loss_sync="epoch"), 3), rel=1e-6)


@pytest.mark.parametrize("residency", ["host", "device"])
def test_evaluation_changes_nothing(residency: str) -> None:
    import torch

    from breakeven.runtimes.torch import prepared, session

    asked = case("resnet18", batch=16, residency=residency)
    built = session.build(asked)
    one, other = prepared.handed_over(built), prepare(model="resnet18", batch=16, residency=residency)
    one.step()
    other.step()
    before = {name: value.clone() for name, value in built.training.net.state_dict().items()}
    first = one.evaluate(2)
    assert (first.samples, first.steps) == (32, 2) and first == one.evaluate(2)
    assert all(torch.equal(value, before[name]) for name, value in built.training.net.state_dict().items())
    assert built.training.net.training
    assert run(one, 1) == run(other, 1)  # nor the order of what is trained on


def test_unlabelled_data_have_no_accuracy() -> None:
    scored = prepare(data_set="synthetic", batch=8, residency="device").evaluate(1)
    assert (scored.samples, scored.accuracy, scored.loss) == (8, None, None)


def test_steps_wrap_over_epochs_and_the_schedule_follows() -> None:
    from breakeven.runtimes.torch import session

    asked = case(batch=512, recipe=Recipe(step_size=1), residency="device")
    one, other = session.build(asked).training, session.build(asked).training
    for rate in (1e-3, 1e-3, 1e-4):  # two steps an epoch: the third wraps
        one.step()
        assert one.optimizer.param_groups[0]["lr"] == pytest.approx(rate)
    one.next_epoch()  # drops the rest
    assert one.optimizer.param_groups[0]["lr"] == pytest.approx(1e-5)
    for explicit in (False, False, True, False, True):
        (other.next_epoch if explicit else other.step)()
    assert (one.course.epoch, one.course.step) == (other.course.epoch, other.course.step) == (2, 0)
    assert one.losses() == other.losses()


def test_a_tensor_learning_rate_is_written_in_place() -> None:
    import torch

    from breakeven.runtimes.torch.training import set_learning_rate

    rate = torch.tensor(1.0)
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=rate)
    set_learning_rate(optimizer, 0.25)
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.25


@pytest.mark.parametrize("residency", ["host", "device"])
def test_a_restored_run_goes_on_bit_for_bit(residency: str, tmp_path: Path) -> None:
    tuning: dict[str, Any] = {"batch": 256, "residency": residency, "recipe": Recipe(step_size=1)}
    straight = prepare(**tuning)
    losses = run(straight, 10)
    first = prepare(**tuning)
    begun = run(first, 5)
    first.save(tmp_path)
    resumed = prepare(**tuning)
    resumed.restore(tmp_path)
    assert begun + run(resumed, 5) == losses
    assert resumed.evaluate(None) == straight.evaluate(None)


def test_seeds_differ_and_leave_determinism_alone() -> None:
    import torch

    flags = torch.backends.cudnn.deterministic, torch.are_deterministic_algorithms_enabled()
    one, two = prepare(seed=1), prepare(seed=2)
    assert all(one.hashes[name] != two.hashes[name] for name in one.hashes)
    assert flags == (torch.backends.cudnn.deterministic, torch.are_deterministic_algorithms_enabled())


def test_facts_are_read_back() -> None:
    prepared = prepare(threads=1, layout="channels-last", precision="fp32", optimizer_impl="foreach")
    prepared.step()
    seen = prepared.observed()
    assert (seen["threads"], seen["device"], seen["output_device"]) == (1, "cpu", "cpu")
    assert (seen["weights_layout"], seen["input_layout"]) == ("channels-last", "channels-last")
    assert (seen["conv_precision"], seen["matmul_precision"]) == ("ieee", "ieee")
    assert seen["optimizer_impl"] == "foreach" and seen["autocast"] is None
    assert prepared.memory() == {} and prepared.sync() is None
    assert all(isinstance(value, int) for value in prepared.counters().values())


def test_auto_threads_stay_within_the_cores_offered() -> None:
    prepared = prepare(device=Device(kind="cpu", threads=1))
    assert prepared.observed()["threads"] == 1


def test_nothing_is_warned_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Of JAX, where its tests came before in this process: a case never shares one with it.
        warnings.filterwarnings("ignore", message="os.fork", category=RuntimeWarning)
        prepared = prepare(workers=3)
        run(prepared, 1)
        prepared.close()


def test_an_absent_device_is_unsupported() -> None:
    import torch

    index = torch.cuda.device_count() if torch.cuda.is_available() else 0
    with pytest.raises(Unsupported, match=f"there are {index}" if index else "sees none"):
        prepare(device=cuda(index))


def test_too_large_a_batch_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="1437 samples"):
        prepare(batch=2000)


def test_a_planted_parameter_elsewhere_is_a_mismatch() -> None:
    import torch

    from breakeven.runtimes.torch import session

    built = session.build(case())
    session.observe(built)
    built.training.net.get_submodule("classifier.2").bias = torch.nn.Parameter(torch.zeros(10, device="meta"))
    with pytest.raises(Mismatch, match=r"classifier\.2\.bias is on meta") as raised:
        session.observe(built)
    assert raised.value.outcome == "device_mismatch"
