"""Studies of inference: what they mean, and whole runs of them on simulated devices."""

from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from breakeven import api
from breakeven.errors import UserError
from breakeven.records import file
from breakeven.records.case import Case
from breakeven.records.lines import steady_step_ns
from breakeven.runner import full
from breakeven.runner.plan import plan, runtimes_of
from breakeven.runner.session import Session
from breakeven.runner.study import Study, builtin_studies, load_study, read_study, resolved
from breakeven.runner.tasks import settled
from breakeven.runtimes import load
from breakeven.workloads import calibration, data, sources
from breakeven.workloads.models import model
from breakeven.workloads.weights import initial_weights, weights_hash

SIM = "sim:gpu:call_us=500:images_per_s=10000:launch_us=5:noise=0.005:process=0.01"


def study(text: str) -> Study:
    return read_study(f"name: t\ntask: infer\nattempt_time: 2\nmax_replicates: 3\n{text}", "t.yaml")


def test_a_model_and_a_flag_are_enough() -> None:
    asked = load_study(["resnet50"], {"task": "infer", "batch": "1..64"})
    assert [tuning.name for tuning in asked.tuning] == ["eager"]
    assert (asked.data, asked.batch) == (("photos",), (1, 2, 4, 8, 16, 32, 64))
    (first, *_) = plan(asked, cores=2, gpus=0).cases
    work, tuning = first.case.work, first.case.tuning
    assert (work.input_shape, work.num_classes, work.recipe, work.weights) == (
        (3, 224, 224),
        1000,
        None,
        None,
    )
    assert (tuning.residency, tuning.workers, tuning.loss_sync) == ("device", None, None)
    assert load_study(["resnet50"], {"task": "train"}) == load_study(["resnet50"])


def test_each_model_gets_images_of_its_size() -> None:
    asked = study("model: [resnet18, simple-cnn]\ndevice: cpu")
    made = {(c.case.work.model, c.case.work.data) for c in plan(asked, cores=2, gpus=0).cases}
    assert made == {("resnet18", "photos"), ("simple-cnn", "digits")}
    assert read_study(str(resolved(asked)).replace("None", "null").replace("False", "false"), "t") == asked
    small = plan(study("model: resnet18\ndata: digits\ndevice: cpu"), cores=2, gpus=0).cases
    assert small[0].case.work.input_shape == (3, 32, 32)


def test_a_runtime_alone_stands_for_its_first_preset() -> None:
    asked = study("model: resnet18\nruntime: [torch, onnxruntime, openvino]")
    assert [tuning.name for tuning in asked.tuning] == ["eager", "onnxruntime", "openvino"]
    assert asked.runtime == (None,) and runtimes_of(asked) == ("torch", "onnxruntime", "openvino")
    assert runtimes_of(study("model: resnet18\ntuning: [eager, tensorrt]")) == ("torch", "onnxruntime")


def test_int8_names_how_it_finds_its_ranges_and_nothing_else_does() -> None:
    asked = study("model: resnet18\ndevice: cpu\nprecision: [fp32, int8]\ncalibration: 64")
    found = {c.case.tuning.precision: c.case.tuning.calibration for c in plan(asked, cores=2, gpus=0).cases}
    assert found == {"fp32": None, "int8": "minmax/64/train"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("tuning: workers", "t.yaml:6: key 'tuning': 'workers' is no tuning of inference; known: eager,"),
        ("tuning: ladder", "'ladder' is no tuning of inference"),
        ("tuning: [eager, best]", "'best' is no tuning of inference"),
        ("full: true", "whole runs are trained"),
        ("recipe: {epochs: 2}", "is how a model is trained"),
        ("weights: {resnet50: x.npz}", "'resnet50' is no model of this study"),
        ("calibration: noise", "must be a number of images, or a recipe such as minmax/256/train"),
        ("calls: 5001", "must be at most 5000"),
        ("tuning: [{name: eager, layout: channels-last}]", "name 'eager' is a preset's"),
    ],
)
def test_what_only_training_has_is_a_fault(text: str, fault: str) -> None:
    with pytest.raises(UserError) as error:
        study(f"model: resnet18\n{text}")
    assert fault in str(error.value) and "\n" not in str(error.value)


def test_what_only_inference_has_is_a_fault_in_training() -> None:
    for text, fault in (
        ("tuning: onnxruntime", "no tuning of training"),
        ("weights: a.npz", "are of inference"),
    ):
        with pytest.raises(UserError, match=fault):
            read_study(f"model: resnet18\n{text}", "t.yaml")
    with pytest.raises(UserError, match="name the model"):
        study("model: [resnet18, resnet50]\nweights: a.npz")


def test_weights_are_named_by_their_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path / "cache"))
    weights = initial_weights(model("simple-cnn"), 7)
    for name in ("a.npz", "b.npz"):
        with (tmp_path / name).open("wb") as opened:
            np.savez(opened, **weights)  # type: ignore[arg-type]
    made = []
    for name in ("a.npz", "b.npz"):
        asked = study(f"model: simple-cnn\ndevice: sim:cpu\nweights: {tmp_path / name}")
        made.append(plan(settled(asked), cores=1, gpus=0).cases[0].case)
    assert made[0].work.weights == f"sha256:{weights_hash(weights)}"
    assert made[0].case_id == made[1].case_id
    with pytest.raises(UserError, match="do not fit resnet18"):
        settled(study(f"model: resnet18\nweights: {tmp_path / 'a.npz'}"))
    once = settled(asked)
    assert settled(once) == once and str(tmp_path) not in str(resolved(once))


def test_pictures_of_the_users_are_named_by_what_they_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path / "cache"))
    image = pytest.importorskip("PIL.Image")
    mine = tmp_path / "mine"
    mine.mkdir()
    for index, name in enumerate(("b.png", "a.png")):
        image.new("RGB", (60 + index, 48), (10 * index, 20, 30)).save(mine / name)
    text = "model: resnet18\ndevice: cpu\nprecision: int8\ncalibration: "
    asked = settled(study(f"{text}{mine}"))
    recipe = plan(asked, cores=1, gpus=0).cases[0].case.tuning.calibration
    assert (
        recipe is not None and recipe.startswith("minmax/2/sha256:") and str(mine) not in str(resolved(asked))
    )
    found = calibration.images(recipe, data.entry("photos"))
    assert found.shape == (2, 3, 224, 224) and found.dtype == np.uint8
    assert found[:, :, 0, 0].tolist() == [[10, 20, 30], [0, 20, 30]]  # by name
    with pytest.raises(UserError, match="no picture"):
        settled(study(f"{text}{tmp_path / 'cache'}"))
    with pytest.raises(UserError, match="no folder"):
        settled(study(f"{text}{tmp_path / 'gone'}"))
    (mine / "c.png").write_text("no picture")
    with pytest.raises(UserError, match="is no picture"):
        settled(study(f"{text}{mine}"))


def test_shipped_studies_keep_precision_and_runtime_apart() -> None:
    studies = builtin_studies()
    precision, seed = studies["precision"], studies["seed-inference"]
    assert len(precision.tuning) == 8 and len(precision.precision) == 6 and precision.data == ("photos",)
    made = plan(seed, cores=16, gpus=1)
    assert not made.notes
    assert {c.case.tuning.precision for c in made.cases if c.tuning_name == "tensorrt"} == {"int8"}
    assert {c.case.tuning.autotune for c in made.cases if c.tuning_name != "tensorrt"} == {True}
    assert {c.case.work.batch for c in made.cases if c.case.device.kind == "cpu"} == {1, 2, 4, 8, 16}
    assert {c.case.work.batch for c in made.cases} >= {384, 512}
    assert (seed.calls, seed.replicates, seed.max_replicates) == (300, 10, 10)


def test_int8_of_torch_on_a_gpu_is_planned_for_resnets_in_a_cuda_graph() -> None:
    def supports(case: Case) -> str | None:
        return load(case.tuning.runtime).supports(case)

    made = plan(builtin_studies()["precision"], cores=16, gpus=1, supports=supports)
    found = {
        (item.case.work.model, item.tuning_name)
        for item in made.cases
        if (item.case.tuning.precision, item.case.tuning.runtime) == ("int8", "torch")
        and item.case.device.kind == "cuda"
    }
    assert found == {(name, "cuda-graph") for name in ("resnet18", "resnet50", "resnet101")}
    assert any("channels-last" in skip.reason for skip in made.skips)


def test_a_sweep_finds_the_planted_times_and_a_rerun_measures_nothing(tmp_path: Path) -> None:
    asked = study(f"model: resnet18\ndevice: {SIM}\nbatch: 1..32\ntuning: cuda-graph\nreplicates: 3")
    summary = api.measure(asked, tmp_path)
    assert (summary.stopped, summary.outcomes) == (None, {"ok": 18})
    lines = file.read(tmp_path).attempts
    assert {line.region for line in lines} == {"infer_stream"}
    for line in lines:
        planted_ns = 500e3 + line.work.batch / 10_000 * 1e9 / 1.2  # channels-last wins 1.2 on this device
        assert steady_step_ns(line) == pytest.approx(planted_ns, rel=0.06)
        assert median(line.calls_ns) == pytest.approx(planted_ns, rel=0.06)
        assert len(line.calls_ns) >= 100 and line.compile is not None and line.losses == ()
        assert line.nulls["accuracy"] and line.nulls["phases"] == "a call is one piece"
        assert not any(block.boundary for block in line.blocks) and "short_epoch" not in line.flags
        assert line.memory["sim_allocated_peak_mib"] > 0 and line.eval_blocks
    before = (tmp_path / file.NAME).read_bytes()
    assert api.measure(asked, tmp_path).attempts == 0
    assert (tmp_path / file.NAME).read_bytes() == before
    wider = study(f"model: resnet18\ndevice: {SIM}\nbatch: 1..64\ntuning: cuda-graph\nreplicates: 3")
    assert api.measure(wider, tmp_path).outcomes == {"ok": 3}


def test_a_batch_that_does_not_fit_ends_the_search_on_that_device_and_tuning_only(tmp_path: Path) -> None:
    devices = "[sim:gpu:oom_batch=64, sim:cpu]"
    asked = study(
        f"model: resnet18\ndevice: {devices}\nbatch: 32..128\nprecision: [fp32, fp16]\nreplicates: 2"
    )
    summary = api.measure(asked, tmp_path)
    found = file.read(tmp_path).attempts
    gpu = [a for a in found if a.device.name == "gpu"]
    assert {a.work.batch for a in gpu if a.outcome == "ok"} == {32}
    assert {a.work.batch for a in gpu if a.outcome == "oom"} == {64, 128}
    assert all(a.outcome == "ok" for a in found if a.device.name == "cpu")
    ended = [a for a in gpu if a.outcome == "oom"]
    assert len(ended) == 4 and all(a.replicate == 0 for a in ended)  # one line each, not one a replicate
    for a in ended:
        earlier = [b for b in ended[: ended.index(a)] if b.tuning == a.tuning and b.work.batch < a.work.batch]
        tried = "simulated out of memory" in (a.reason or "")
        assert tried == (not earlier)
        assert tried or f"limit found at {min(b.work.batch for b in earlier)}" in (a.reason or "")
    assert set(summary.outcomes) == {"ok", "oom"}
    assert api.measure(asked, tmp_path).attempts == 0


@pytest.mark.parametrize(
    ("options", "outcome", "refused"),
    [
        ("fallback=fp32", "precision_mismatch", {"fp16", "int8"}),
        ("agreement=0.6", "output_mismatch", {"int8"}),
        ("fault=mismatch", "device_mismatch", {"fp32", "fp16", "int8"}),
    ],
)
def test_planted_faults_are_never_a_number(
    options: str, outcome: str, refused: set[str], tmp_path: Path
) -> None:
    device = f"sim:gpu:step_ms=2:{options}"
    asked = study(f"model: resnet18\ndevice: {device}\nprecision: [fp32, fp16, int8]\nreplicates: 1")
    api.measure(asked, tmp_path)
    found = file.read(tmp_path).attempts
    assert {a.tuning.precision for a in found if a.outcome == outcome} == refused
    assert {a.outcome for a in found if a.tuning.precision not in refused} <= {"ok"}


def test_a_compile_while_calls_are_timed_is_never_a_number(tmp_path: Path) -> None:
    # The stream of 1.4 s ends early, and 300 single calls follow it.
    api.measure(
        study("model: resnet18\ndevice: sim:gpu:step_ms=2:recompile_step=450\nreplicates: 1"), tmp_path
    )
    (line,) = file.read(tmp_path).attempts
    assert (line.outcome, line.reason) == (
        "invalid", "compiled or retraced inside the timed window: recompiles +1"
    )  # fmt: skip


def test_energy_and_accuracy_are_in_the_line(tmp_path: Path) -> None:
    device = "sim:gpu:step_ms=5:watts=400:idle_w=80:noise=0"
    asked = study(f"model: simple-cnn\ndevice: {device}\nreplicates: 1\nbatch: 128")
    api.measure(asked, tmp_path)
    (line, *_) = file.read(tmp_path).attempts
    assert line.energy is not None and "energy" not in line.nulls
    watts = line.energy["gross_j"] / (line.energy["window_ns"] / 1e9)
    assert watts == pytest.approx(400, rel=0.02) and line.energy["idle_w"] == 80
    assert line.accuracy == pytest.approx(0.1, abs=0.01)  # random weights: chance


@pytest.mark.framework
def test_trained_weights_are_left_as_a_file_that_inference_reads(tmp_path: Path) -> None:
    from breakeven import runtimes
    from breakeven.runner import checkpoint

    asked = read_study("model: simple-cnn-w0.25\ndevice: cpu\nbatch: 16", "t.yaml")
    prepared = runtimes.load("torch").prepare(plan(asked, cores=1, gpus=0).cases[0].case)
    prepared.step()
    prepared.sync()
    assert prepared.export is not None
    path = tmp_path / "weights" / "simple-cnn-w0.25-cpu-r0.npz"
    identity = checkpoint.save_weights(path, prepared.export())
    prepared.close()
    read = sources.read(str(path), model("simple-cnn-w0.25"))
    assert identity == f"sha256:{weights_hash(read)}"
    assert identity != f"sha256:{prepared.hashes['weights']}"  # a step was made
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_the_file_of_trained_weights_has_a_name_of_its_own(tmp_path: Path) -> None:
    asked = read_study("model: [simple-cnn]\ndevice: [cpu, 'sim:gpu:step_ms=2']\nseed: [0, 1]", "t.yaml")
    made = plan(asked, cores=2, gpus=0)
    session = Session(asked, made, tmp_path / file.NAME, lambda event: None, lambda: None, 0.0)
    names = [full.weights_file(session, item, 0).name for item in made.cases]
    assert len(set(names)) == 4 and all(name.endswith("-r0.npz") for name in names)
    alone = Session(
        asked, replace(made, cases=made.cases[:1]), tmp_path / file.NAME, print, lambda: None, 0.0
    )
    assert full.weights_file(alone, made.cases[0], 2) == tmp_path / "weights" / "simple-cnn-cpu-r2.npz"
