"""The simulated device: its options, its async truth, its faults, and what is planted in it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from statistics import median

import pytest

from breakeven.errors import Mismatch, Unsupported, UserError
from breakeven.records.case import Case, Recipe, Tuning, Work, applicable, parse_device
from breakeven.records.tuning import preset
from breakeven.runtimes import Prepared, load, measurable, sim
from breakeven.timing import sample_peak
from breakeven.workloads import costs, models


def case_of(
    device: str = "sim:gpu:step_ms=10:noise=0:process=0",
    *,
    model: str = "simple-cnn",
    batch: int = 100,
    tuning: Tuning | None = None,
    seed: int = 0,
    epochs: int = 4,
    task: str = "train",
) -> Case:
    work = Work(
        task=task,  # type: ignore[arg-type]
        model=model,
        data="cifar10",
        data_version="1",
        data_hash=None,
        batch=batch,
        recipe=Recipe(epochs=epochs),
        seed=seed,
    )
    return applicable(
        Case(
            work=work, tuning=tuning or Tuning(runtime="sim", loss_sync="epoch"), device=parse_device(device)
        )
    )


def run_time_ns(prepared: Prepared, steps: int) -> int:
    assert prepared.clock is not None
    prepared.sync()
    start = prepared.clock()
    for _ in range(steps):
        prepared.step()
    prepared.sync()
    return prepared.clock() - start


def test_it_is_a_runtime() -> None:
    runtime = load("sim")
    here = runtime.availability()
    assert here.reason is None and {place.label for place in here.places} == {"sim:cpu", "sim:gpu"}
    assert runtime.PRELOAD == ()
    assert runtime.supports(case_of()) is None


def test_a_step_returns_before_its_work_is_done() -> None:
    prepared = sim.prepare(case_of("sim:gpu:step_ms=10:noise=0:process=0:cold_ms=0:drift=1"))
    assert prepared.clock is not None
    start = prepared.clock()
    for _ in range(10):
        prepared.step()
    assert prepared.clock() - start < 1000
    prepared.sync()
    assert prepared.clock() - start == pytest.approx(100e6, rel=1e-6)


def test_a_loss_read_every_step_waits_for_it() -> None:
    prepared = sim.prepare(case_of(tuning=Tuning(runtime="sim", loss_sync="every-step")))
    assert prepared.clock is not None
    start = prepared.clock()
    prepared.step()
    assert prepared.clock() - start >= 10e6


@pytest.mark.parametrize(
    "tuning", ["as-written", "workers", "on-device", "no-sync", "cuda-graph", "bf16", "compile"]
)
@pytest.mark.parametrize("device", ["sim:cpu", "sim:gpu"])
@pytest.mark.parametrize("model", ["simple-cnn", "resnet50"])
def test_the_steady_step_is_the_planted_one(model: str, device: str, tuning: str) -> None:
    device += ":noise=0:process=0:train_samples=1000000"
    case = case_of(device, model=model, batch=128, tuning=preset(tuning, "sim", Tuning(runtime="sim")))
    prepared = sim.prepare(case)
    for _ in range(300):
        prepared.step()
    truth = sim.truth_of(case, sim.profile_of(case.device))
    assert run_time_ns(prepared, 300) / 300 == pytest.approx(truth.step_ns, rel=0.01)


@pytest.mark.parametrize("loss_sync", ["every-step", "epoch"])
@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("workers", [0, 4])
@pytest.mark.parametrize("input_ms", [1, 30])
@pytest.mark.parametrize("launch_us", [10, 1000])
def test_a_copy_costs_what_is_planted(
    loss_sync: str, pinned: bool, workers: int, input_ms: float, launch_us: float
) -> None:
    device = f"sim:gpu:step_ms=8:copy_ms=5:noise=0:process=0:train_samples=1000000:input_ms={input_ms}"
    tuning = Tuning(runtime="sim", loss_sync=loss_sync, pinned=pinned, workers=workers)  # type: ignore[arg-type]
    case = case_of(f"{device}:launch_us={launch_us}", tuning=tuning)
    prepared = sim.prepare(case)
    for _ in range(300):
        prepared.step()
    truth = sim.truth_of(case, sim.profile_of(case.device))
    assert run_time_ns(prepared, 300) / 300 == pytest.approx(truth.step_ns, rel=0.01)


@pytest.mark.parametrize("name", ["no-sync", "cuda-graph"])
def test_parts_in_order_are_a_step_where_there_are_parts(name: str) -> None:
    device = "sim:gpu:noise=0.1:copy_ms=2"
    case = case_of(device, tuning=preset(name, "sim", Tuning(runtime="sim")))
    whole, split = sim.prepare(case), sim.prepare(case)
    if name == "cuda-graph":
        assert split.parts is None and "one piece" in split.nulls["phases"]
        return
    assert split.parts is not None
    assert list(split.parts) == ["data_wait", "cut", "forward", "backward", "optimizer", "loss_read"]
    for _ in range(5):
        whole.step()
        for part in split.parts.values():
            part()
    assert whole.losses() == split.losses() and whole.clock and split.clock
    assert whole.clock() == split.clock()


def test_a_planted_bandwidth_shows_as_a_ceiling_and_in_the_step() -> None:
    slow = case_of("sim:gpu:gflops=1e6:gb_per_s=10:noise=0:process=0", model="resnet18")
    truth = sim.truth_of(slow, sim.profile_of(slow.device))
    traffic = costs.training_bytes(models.model("resnet18", num_classes=10, input_shape=(3, 32, 32)), 100)
    assert truth.device_ns == pytest.approx((traffic + 28 * truth.parameters) / 10, rel=0.01)
    assert sum(truth.split) == pytest.approx(1) and min(truth.split) > 0.1
    runtime = measurable("sim")
    assert runtime is not None and runtime.peaks(case_of("sim:gpu").device) == {}
    assert set(runtime.peaks(slow.device)) == {"matmul_fp32", "matmul_bf16", "copy"}
    reached = sample_peak(runtime.peak(slow.device, "copy"), budget_s=0.5)
    assert reached.per_second == pytest.approx(10e9, rel=1e-4) and reached.flags == ()


def test_a_ladder_looks_like_one() -> None:
    def step_ns(device: str, model: str, name: str) -> float:
        case = case_of(device, model=model, tuning=preset(name, "sim", Tuning(runtime="sim")))
        return sim.truth_of(case, sim.profile_of(case.device)).step_ns

    def ratio(model: str, name: str) -> float:
        return step_ns("sim:cpu", model, name) / step_ns("sim:gpu", model, name)

    # Eager steps launch every layer, a captured one is launched once.
    assert step_ns("sim:gpu", "resnet50", "no-sync") > 3 * step_ns("sim:gpu", "resnet50", "cuda-graph")
    assert 1 < ratio("simple-cnn", "as-written") < ratio("resnet50", "as-written") < 10
    assert ratio("simple-cnn", "compile") > 10 and ratio("resnet50", "compile") > 50


def test_noise_has_its_sigma_and_a_median_of_one() -> None:
    prepared = sim.prepare(case_of("sim:gpu:step_ms=10:noise=0.1:process=0:cold_ms=0:drift=1"))
    times = [run_time_ns(prepared, 1) / 10e6 for _ in range(2000)]
    assert median(times) == pytest.approx(1, abs=0.01)
    inside = sum(0.9 < value < 1.105 for value in times) / len(times)
    assert inside == pytest.approx(0.683, abs=0.03)


def test_processes_differ_by_their_seed_and_repeat_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(seed: str) -> int:
        monkeypatch.setenv("BREAKEVEN_SIM_SEED", seed)
        return run_time_ns(sim.prepare(case_of("sim:gpu:step_ms=10:process=0.1")), 5)

    assert first("0/abc/0/0") == first("0/abc/0/0") != first("0/abc/1/0")


def test_what_is_rare_is_planted_too() -> None:
    prepared = sim.prepare(
        case_of(
            "sim:gpu:step_ms=10:noise=0:process=0:cold_ms=300:drift=3:drift_steps=4:boundary_ms=70:eval_ms=6"
        )
    )
    first = [run_time_ns(prepared, 1) / 1e6 for _ in range(6)]
    assert first == pytest.approx([330, 25, 20, 15, 10, 10], rel=1e-5)
    assert prepared.clock is not None
    start = prepared.clock()
    prepared.next_epoch()
    assert prepared.clock() - start == pytest.approx(70e6, rel=1e-6)
    start = prepared.clock()
    found = prepared.evaluate(3)
    assert prepared.clock() - start == pytest.approx(18e6, rel=1e-6)
    assert (found.steps, found.samples) == (3, 300)


def test_an_epoch_wraps_by_itself_at_the_next_step_only() -> None:
    prepared = sim.prepare(
        case_of("sim:gpu:step_ms=10:noise=0:process=0:boundary_ms=70:drift=1:train_samples=350")
    )
    assert prepared.steps_per_epoch == 3
    run_time_ns(prepared, 1)
    assert run_time_ns(prepared, 2) == pytest.approx(20e6, rel=1e-6)
    assert run_time_ns(prepared, 1) == pytest.approx(80e6, rel=1e-6)


def test_accuracy_reaches_the_planted_one_at_the_last_epoch() -> None:
    prepared = sim.prepare(case_of("sim:gpu:accuracy=0.8:acc_sd=0:train_samples=200", epochs=4))
    seen = [prepared.evaluate(None).accuracy]
    for _ in range(4):
        prepared.step()
        prepared.step()
        seen.append(prepared.evaluate(None).accuracy)
        prepared.next_epoch()
    assert seen[0] == pytest.approx(0.1) and seen[-1] == pytest.approx(0.8)
    assert seen == sorted(seen)  # type: ignore[type-var]
    losses = prepared.losses()
    assert len(losses) == 8 and list(losses) == sorted(losses, reverse=True)
    assert prepared.losses() == ()


def test_seeds_spread_and_devices_agree() -> None:
    def final(device: str, seed: int) -> float:
        case = case_of(f"{device}:accuracy=0.7:acc_sd=0.02", seed=seed)
        return sim.truth_of(case, sim.profile_of(case.device)).accuracy

    finals = [final("sim:gpu", seed) for seed in range(40)]
    assert len(set(finals)) == 40 and sum(finals) / 40 == pytest.approx(0.7, abs=0.01)
    assert final("sim:cpu", 3) == final("sim:gpu", 3)


def test_hashes_depend_on_the_work_only() -> None:
    cpu, gpu, bad = (sim.prepare(case_of(f"sim:{name}")).hashes for name in ("cpu", "gpu", "gpu:hash=bad"))
    assert cpu == gpu and set(cpu) == {"weights", "order", "augment"}
    assert bad["weights"] != gpu["weights"] and bad["order"] == gpu["order"]
    assert sim.prepare(case_of(seed=1)).hashes != gpu


def test_a_training_is_saved_and_restored(tmp_path: Path) -> None:
    one = sim.prepare(case_of("sim:gpu:train_samples=300"))
    for _ in range(7):
        one.step()
    one.save(tmp_path)
    two = sim.prepare(case_of("sim:gpu:train_samples=300"))
    two.restore(tmp_path)
    assert two.evaluate(None) == one.evaluate(None)


def test_memory_is_named_and_its_peak_falls_when_reset() -> None:
    prepared = sim.prepare(case_of("sim:gpu:mem_mib=100"))
    cold = prepared.memory()
    prepared.reset_memory()
    assert cold == {"sim_allocated_peak_mib": 125.0}
    assert prepared.memory() == {"sim_allocated_peak_mib": 100.0}
    estimated = [sim.prepare(case_of("sim:gpu", model=name)).memory() for name in ("simple-cnn", "resnet50")]
    assert 1 < estimated[0]["sim_allocated_peak_mib"] < estimated[1]["sim_allocated_peak_mib"] < 10_000


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("sim:gpuu", "unknown simulated device 'gpuu': did you mean 'gpu'?"),
        ("sim:xyz", "unknown simulated device 'xyz': known are cpu, gpu"),
        ("sim:gpu:noize=1", "unknown option 'noize' of a simulated device: did you mean 'noise'?"),
        ("sim:gpu:noise=loud", "option noise='loud' of a simulated device must be a number"),
        ("sim:gpu:fault_step=1.5", "option fault_step='1.5' of a simulated device must be a whole number"),
        ("sim:gpu:step_ms=0", "option step_ms=0 of a simulated device must lie above 0"),
        ("sim:gpu:step_ms=nan", "option step_ms=nan of a simulated device must lie above 0"),
        ("sim:gpu:cold_ms=-1", "option cold_ms=-1 of a simulated device must lie at 0 or above"),
        ("sim:gpu:accuracy=2", "option accuracy=2 of a simulated device must lie between 0 and 1"),
        ("sim:gpu:fault=hnag", "option fault='hnag' of a simulated device: did you mean 'hang'?"),
    ],
)
def test_a_bad_device_says_what_to_write(device: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        sim.supports(case_of(device))
    assert str(caught.value) == message


def test_what_is_not_simulated_is_unsupported() -> None:
    assert sim.supports(case_of("cpu")) == (
        "the runtime sim computes on simulated devices only: use --device sim:cpu or sim:gpu"
    )
    with pytest.raises(Unsupported, match="int8 is for inference"):
        sim.prepare(case_of(tuning=Tuning(runtime="sim", precision="int8")))
    with pytest.raises(UserError, match="larger than the 50 training samples"):
        sim.prepare(case_of("sim:gpu:train_samples=50"))


@pytest.mark.parametrize(("fault", "error"), [("error", RuntimeError), ("oom", MemoryError)])
def test_a_fault_strikes_at_its_step(fault: str, error: type[Exception]) -> None:
    prepared = sim.prepare(case_of(f"sim:gpu:fault={fault}:fault_step=2"))
    prepared.step()
    prepared.step()
    with pytest.raises(error, match="simulated"):
        prepared.step()


def test_a_fault_can_be_kept_to_a_replicate_and_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seed: str) -> bool:
        monkeypatch.setenv("BREAKEVEN_SIM_SEED", seed)
        try:
            sim.prepare(case_of("sim:gpu:fault=error:fault_replicate=1:fault_attempt=0")).step()
        except RuntimeError:
            return True
        return False

    assert [fails(seed) for seed in ("7/c/0/0", "7/c/1/0", "7/c/1/1", "0")] == [False, True, False, False]


def test_a_large_batch_runs_out_of_memory_at_the_first_step() -> None:
    sim.prepare(case_of("sim:gpu:oom_batch=101")).step()
    with pytest.raises(MemoryError, match="batch 100"):
        sim.prepare(case_of("sim:gpu:oom_batch=100")).step()


def test_a_mismatch_shows_in_checks_and_in_what_is_observed() -> None:
    prepared = sim.prepare(case_of("sim:gpu:fault=mismatch"))
    with pytest.raises(Mismatch) as caught:
        prepared.checks()
    assert caught.value.outcome == "device_mismatch"
    assert prepared.observed()["device"] != "sim:gpu"
    sound = sim.prepare(case_of("sim:gpu"))
    assert all(check["ok"] for check in sound.checks().values())
    assert sound.observed() == {
        "device": "sim:gpu",
        "conv_precision": "default",
        "matmul_precision": "default",
        "tail_dropped_samples": 0,
    }


def test_garbage_goes_to_the_event_channel_and_the_flood_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with (tmp_path / "events").open("wb") as events:
        monkeypatch.setenv("BREAKEVEN_EVENT_FD", str(events.fileno()))
        sim.prepare(case_of("sim:gpu:fault=garbage")).step()
    assert (tmp_path / "events").read_bytes().startswith(b"\xff\x00")
    monkeypatch.setattr("breakeven.runtimes.sim.faults.FLOOD_LINES", 1000)
    sim.prepare(case_of("sim:gpu:fault=flood")).step()
    assert len(capsys.readouterr().err) == 100_000


def test_slow_slows_from_its_step_on() -> None:
    prepared = sim.prepare(
        case_of("sim:gpu:step_ms=10:noise=0:process=0:cold_ms=0:drift=1:fault=slow:fault_step=1")
    )
    assert [run_time_ns(prepared, 1) / 1e6 for _ in range(3)] == pytest.approx([10, 100, 100], rel=1e-5)


def test_real_time_passes_when_asked() -> None:
    prepared = sim.prepare(case_of("sim:gpu:step_ms=1:real=1:cold_ms=0"))
    assert prepared.clock is None
    prepared.step()
    prepared.sync()


def test_cores_divide_the_devices_time_by_amdahls_law() -> None:
    """30 ms of 100 are serial; each further core adds 1 ms; the host's 5 ms for a batch stay as they are."""
    options = "step_ms=100:serial=0.3:overhead=0.01:input_ms=5:noise=0:process=0"
    expected = {None: 105.0, 1: 105.0, 2: 5 + 30 + 35 + 1, 4: 5 + 30 + 17.5 + 3}
    for cores, ms in expected.items():
        case = case_of(f"sim:cpu:{options}" + (f":threads={cores}" if cores else ""))
        case = dataclasses.replace(case, tuning=Tuning(runtime="sim"))
        assert sim.truth_of(case, sim.profile_of(case.device)).step_ns == pytest.approx(ms * 1e6)


@pytest.mark.parametrize("option", ["threads=0", "serial=1.5", "overhead=-1", "threads=two"])
def test_bad_numbers_of_cores_are_refused(option: str) -> None:
    with pytest.raises(UserError, match=option.partition("=")[0]):
        sim.profile_of(parse_device(f"sim:cpu:{option}"))
