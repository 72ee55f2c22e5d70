"""Studies: what is read, what is refused, and that every refusal is one line that says where and what."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven import catalog
from breakeven.errors import UserError
from breakeven.records.case import Recipe, Task, Tuning
from breakeven.records.tuning import PRESETS, presets
from breakeven.runner.document import MAX_BYTES, parse
from breakeven.runner.plan import plan
from breakeven.runner.schema import RecipeKeys, StudyKeys, TuningKeys, json_schema
from breakeven.runner.study import (
    AXES,
    NamedTuning,
    Study,
    builtin_studies,
    load_study,
    read_study,
    resolved,
)
from breakeven.workloads import cyclegan
from breakeven.workloads.models import MODELS

FULL = """\
name: everything
title: All keys in one study
task: train
model: [simple-cnn, resnet18]
device: [auto, 'cpu:threads=2', cuda:1, 'sim:gpu:noise=0.1']
runtime: null
precision: [null, bf16]
batch: [1..8, 3]
tuning:
  - as-written
  - name: mine
    preset: on-device
    layout: channels-last
    env: {OMP_NUM_THREADS: 2}
data: digits
seed: [0, 1]
exclude:
  - device: cuda:1
    batch: 1..2
recipe:
  lr: 1e-2
  epochs: 3
weights: {}
calibration: 64
load: []
p99_limit_ms: null
load_time: 5s
load_minimums: full
load_wait_ms: 1.5
full: false
profile: true
bandwidth: true
accuracy_margin: 0.02
baseline: auto
replicates: 5
max_replicates: 12
full_replicates: 2
relative_ci: 0.05
attempt_time: 2 s
calls: 300
max_time: 1 h 30 min
order_seed: 7
timeout: 600
"""


def refused(text: str | bytes, source: str = "f.yaml") -> str:
    with pytest.raises(UserError) as caught:
        read_study(text, source)
    return one_line(caught.value)


def one_line(error: UserError) -> str:
    text = str(error)
    assert text.isprintable() and 0 < len(text) <= 400, repr(text)
    return text


def test_every_key_is_read() -> None:
    study = read_study(FULL, "f.yaml")
    assert set(yaml.safe_load(FULL)) == set(StudyKeys.model_fields)
    assert study.device == ("auto", "cpu:threads=2", "cuda:1", "sim:gpu:noise=0.1")
    assert study.precision == (None, "bf16")
    assert study.batch == (1, 2, 4, 8, 3)
    assert study.tuning[1] == NamedTuning(
        name="mine",
        preset="on-device",
        changes=(("env", (("OMP_NUM_THREADS", "2"),)), ("layout", "channels-last")),
    )
    assert study.exclude == ({"device": ("cuda:1",), "batch": (1, 2)},)
    assert study.recipe == Recipe(lr=0.01, epochs=3)
    assert (study.attempt_time, study.max_time, study.timeout) == (2.0, 5400.0, 600.0)
    assert (study.weights, study.calibration) == ({}, "minmax/64/train")
    assert study.calls == 300
    assert (study.load, study.load_time, study.load_minimums) == ((), 5.0, "full")


def test_defaults() -> None:
    study = read_study("model: resnet18", "small.yaml")
    assert study == Study(name="small", model=("resnet18",))
    assert read_study("model: resnet18\nattempt_time: 60", "small.yaml").timeout == 900


def test_keys_are_those_of_the_records() -> None:
    assert set(RecipeKeys.model_fields) == {f.name for f in dataclasses.fields(Recipe)}
    assert set(TuningKeys.model_fields) == {f.name for f in dataclasses.fields(Tuning)} | {"name", "preset"}
    # `best` is a word of the key `tuning`, and no tuning.
    assert set(StudyKeys.model_fields) == {f.name for f in dataclasses.fields(Study)} - {"best"}
    assert Recipe(**RecipeKeys().model_dump()) == Recipe()
    filled = TuningKeys(name="x").model_dump(exclude={"name", "preset", "env"})
    (threads,) = filled.pop("threads")  # a list: several are several tunings
    assert Tuning(threads=threads, **filled) == Tuning()


def test_resolved_is_plain_json_and_reads_back() -> None:
    for study in (read_study(FULL, "f.yaml"), *builtin_studies().values()):
        text = json.dumps(resolved(study), allow_nan=False)
        assert read_study(text, "again") == study


def test_ladder_stands_for_every_preset() -> None:
    study = read_study("model: resnet18\ntuning: ladder", "f.yaml")
    assert tuple(tuning.name for tuning in study.tuning) == PRESETS


def test_more_replicates_raise_the_most() -> None:
    assert read_study("model: resnet18\nreplicates: 20", "f.yaml").max_replicates == 20


@pytest.mark.parametrize(
    ("text", "batch"),
    [
        ("1..64", (1, 2, 4, 8, 16, 32, 64)),
        ("1..100", (1, 2, 4, 8, 16, 32, 64)),
        ("3..13", (3, 6, 12)),
        ("5..5", (5,)),
        ("[128, 1..2, 2]", (128, 1, 2)),
    ],
)
def test_batch_ranges_double(text: str, batch: tuple[int, ...]) -> None:
    assert read_study(f"model: resnet18\nbatch: {text}", "f.yaml").batch == batch


M = "model: resnet18\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modle: resnet18", "f.yaml:1: key 'modle': unknown; did you mean 'model'?"),
        ("model: resnet81", "f.yaml:1: key 'model': unknown 'resnet81'; did you mean 'resnet18'?"),
        ("model:\n- resnet18\n- simple-cn", "f.yaml:3: key 'model': unknown 'simple-cn'; did you mean"),
        ("batch: 1", "f.yaml:1: key 'model': is missing"),
        (M + "device: gpu", "f.yaml:2: key 'device': unknown device 'gpu'"),
        (M + "data: cifar-10", "f.yaml:2: key 'data': unknown 'cifar-10'; did you mean 'cifar10'?"),
        (M + "precision: fp23", "f.yaml:2: key 'precision': unknown 'fp23'; did you mean 'fp32'?"),
        (M + "tuning: on-devise", "f.yaml:2: key 'tuning': unknown 'on-devise'; did you mean 'on-device'?"),
        (M + "runtime: toch", "f.yaml:2: key 'runtime': unknown 'toch'; did you mean 'torch'?"),
        (M + "task: training", "f.yaml:2: key 'task': unknown 'training'; did you mean 'train'?"),
        (M + "batch: 0", "f.yaml:2: key 'batch': must be at least 1, not 0"),
        (M + "batch: [4,\n -1]", "f.yaml:3: key 'batch': must be at least 1, not -1"),
        (M + "batch: true", "f.yaml:2: key 'batch': must be a whole number, not true"),
        (M + "batch: 1.5", "f.yaml:2: key 'batch': must be a whole number, not 1.5"),
        (M + "batch: 64..1", "f.yaml:2: key 'batch': range 64..1 must go up from at least 1"),
        (M + "batch: 0..8", "f.yaml:2: key 'batch': range 0..8 must go up from at least 1"),
        (M + "batch: many", "f.yaml:2: key 'batch': must be a whole number or a range such as 1..64"),
        (M + "batch: []", "f.yaml:2: key 'batch': must name at least one"),
        (M + "seed: -1", "f.yaml:2: key 'seed': must be at least 0, not -1"),
        (M + "full: 1", "f.yaml:2: key 'full': must be true or false, not 1"),
        (M + "relative_ci: .nan", "f.yaml:2: key 'relative_ci': must be a finite number, not nan"),
        (M + "relative_ci: '0.1'", "f.yaml:2: key 'relative_ci': must be a number, not '0.1'"),
        (M + "attempt_time: soon", "f.yaml:2: key 'attempt_time': not a duration: 'soon'"),
        (M + "attempt_time: .inf", "f.yaml:2: key 'attempt_time': must be "),
        (M + "max_time: 0", "f.yaml:2: key 'max_time': must be more than 0, not 0"),
        (M + "max_time: true", "f.yaml:2: key 'max_time': must be a number, not true"),
        (M + "recipe:\n  epochs: 2\n  rl: 1", "f.yaml:4: key 'recipe.rl': unknown; did you mean 'lr'?"),
        (M + "recipe: adam", "f.yaml:2: key 'recipe': must be a mapping, not 'adam'"),
        (M + "tuning:\n- name: a\n  layout: nhwc", "f.yaml:4: key 'tuning.layout': unknown 'nhwc'; known: "),
        (M + "tuning:\n  name: a\n  threads: few", "f.yaml:4: key 'tuning.threads': must be a whole"),
        (M + "tuning: {layout: channels-last}", "f.yaml:2: key 'tuning.name': is missing"),
        (M + "tuning: {name: bf16, layout: channels-last}", "f.yaml:2: key 'tuning': name 'bf16' is a"),
        (M + "tuning: {name: x, preset: ladder}", "f.yaml:2: key 'tuning': preset 'ladder' stands for many"),
        (M + "tuning: {name: x, env: {LD_PRELOAD: a.so}}", "f.yaml:2: key 'tuning.env': LD_PRELOAD may"),
        (M + "tuning: [{name: x}, {name: x, workers: 2}]", "f.yaml:2: key 'tuning': two tunings are named"),
        (M + "exclude: [{}]", "f.yaml:2: key 'exclude': names no axis"),
        (M + "exclude:\n- tuning: bf16", "f.yaml:3: key 'exclude.tuning': 'bf16' is no tuning of this study"),
        (M + "exclude:\n- modell: x", "f.yaml:3: key 'exclude.modell': unknown; did you mean 'model'?"),
        (M + "max_replicates: 2", "f.yaml:2: key 'max_replicates': max_replicates 2 is less than"),
        (M + "device: cpu:threads=4..2", "f.yaml:2: key 'device': range 4..2 of threads must go up"),
        (M + "device: cpu:thread=1..2", "f.yaml:2: key 'device': unknown device 'cpu:thread=1..2'"),
        (M + "device: cpu\nbaseline: cpu:threads=1..2", "f.yaml:3: key 'baseline': 'cpu:threads=1..2'"),
        (M + "device: cpu-threads\nbaseline: cpu-threads", "f.yaml:3: key 'baseline': 'cpu-threads' is more"),
        (M + "tuning:\n  name: " + "a" * 60 + "\n  threads: [1, 2]", "f.yaml:2: key 'tuning': 'aaa"),
        (M + "tuning:\n  name: a\n  threads: [1, few]", "f.yaml:4: key 'tuning.threads': must be a whole"),
        (M + "tuning:\n  name: a\n  threads: []", "f.yaml:4: key 'tuning.threads': must name at least one"),
        (M + "device: cpu\nbaseline: cuda:0", "f.yaml:3: key 'baseline': 'cuda:0' is no device of this"),
        (M + "name: ../up", "f.yaml:2: key 'name': must be letters, digits"),
        (M + "name: .hidden", "f.yaml:2: key 'name': must be letters, digits"),
        (M + 'name: "a\\nb"', "f.yaml:2: key 'name': must be letters, digits"),
        (M + "name: <b>", "f.yaml:2: key 'name': must be letters, digits"),
        (M + f"name: {'x' * 65}", "f.yaml:2: key 'name': is too long"),
        (M + 'title: "a\\e[31mb"', "f.yaml:2: key 'title': must be one line without control characters"),
        (M + M, "f.yaml:2: key 'model': given twice"),
        (M + "seed: 9999999999999999999999999999999999", "f.yaml:2: a number of 34 digits is too long"),
        ("", "f.yaml: is empty; a study needs at least 'model'"),
        ("# nothing\n", "f.yaml: is empty"),
        ("- resnet18", "f.yaml:1: is not a study"),
        ("resnet18", "f.yaml:1: is not a study"),
        ("1: x", "f.yaml:1: a key must be text"),
        ("? [a]\n: x", "f.yaml:1: a key must be text"),
        (M + "batch: [1", "f.yaml:2: is not valid YAML"),
        (M + "\tseed: 1", "f.yaml:2: is not valid YAML"),
        (M + "---\n" + M, "f.yaml:2: is not valid YAML"),
        (M + "seed: *a", "f.yaml:2: is not valid YAML"),
        (M + "title: !!python/object/apply:os.system [ls]", "f.yaml:2: tag "),
        (M + "title: !!binary aGk=", "f.yaml:2: tag "),
        ("model: &a [*a]", "f.yaml:1: is nested too deeply for a study"),
        (M + "seed: " + "[" * 5000, "f.yaml: is nested too deeply for a study"),
        (M + "seed: " + "[" * 50 + "]" * 50, "f.yaml:2: is nested too deeply for a study"),
        (M + 'title: "\\UFFFFFFFF"', "f.yaml: is not valid YAML"),
        (M + 'title: "\\ud83d"', "f.yaml:2: holds half a character"),
        (M + "<<: {seed: 1}", "f.yaml:2: key '<<': unknown"),
    ],
)  # fmt: skip
def test_faults_say_where_and_what(text: str, message: str) -> None:
    assert refused(text).startswith(message)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\x01PNG", "f.yaml: is a binary file, not a study"),
        (M.encode() + b"title: \xe9", "f.yaml:2: is not UTF-8 text"),
        (b"#" * (MAX_BYTES + 1), "f.yaml: is too large for a study"),
        (M.encode() + b"title: \x07", "f.yaml:2: holds a character"),
    ],
)
def test_faulty_bytes(data: bytes, message: str) -> None:
    assert refused(data).startswith(message)


def test_anchor_bomb_is_refused() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    assert "is too large for a study" in refused("\n".join(levels))


def test_too_many_combinations_are_refused() -> None:
    seeds = ", ".join(str(n) for n in range(3000))
    text = f"{M}seed: [{seeds}]\nbatch: 1..128"
    assert "24,000 combinations are too many" in refused(text)


def test_an_alias_and_yaml_1_2_scalars_are_fine() -> None:
    text = "model: &m resnet18\ntitle: no\nexclude: [{model: *m, seed: 1}]\nrecipe: {lr: 1e-3}\nseed: [0, 1]"
    study = read_study(text, "f.yaml")
    assert study.title == "no" and study.recipe.lr == 1e-3 and study.exclude[0]["model"] == ("resnet18",)


def test_json_escapes_of_large_characters_are_joined() -> None:
    assert read_study('{"model": "resnet18", "title": "\\ud83d\\ude80"}', "f.json").title == "\U0001f680"


def test_a_source_with_control_characters_stays_on_one_line() -> None:
    assert refused("modle: x", "a\nb\x1b[31m.yaml").startswith("a b [31m.yaml:1: key 'modle'")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(M, encoding="utf-8-sig")
    assert read_study(path).name == "mine"
    odd = tmp_path / "my study.yaml"
    odd.write_text(M)
    for what, message in (
        (odd, ":1: key 'name': is missing"),
        (tmp_path, "is a folder"),
        (tmp_path / "no.yaml", "No such file"),
        (tmp_path / "a\0b", "cannot be read"),
    ):
        with pytest.raises(UserError) as caught:
            read_study(what)
        assert message in one_line(caught.value)


def test_what() -> None:
    assert load_study() == load_study(["quick"]) == builtin_studies()["quick"]
    two = load_study(["resnet18", "simple-cnn", "resnet18"])
    assert two == Study(name="resnet18-simple-cnn", model=("resnet18", "simple-cnn"))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (["quik"], "unknown study or model 'quik'; did you mean 'quick'?"),
        (["resnet5"], "unknown study or model 'resnet5'; did you mean 'resnet50'?"),
        (["resnet18", "resnt50"], "unknown study or model 'resnt50'; did you mean 'resnet50'?"),
        (["quick", "resnet18"], "'quick' is a study: name it alone"),
        (["quick", "model-scale"], "'quick' is a study: name it alone"),
        (["./none.yaml"], "none.yaml: cannot be read: No such file"),
        (
            ["nope.yaml"],
            "No such file or directory; write it, or run a built-in study (breakeven list studies)",
        ),
        (["./quik.yaml"], "; built-in studies need no file: quick (all: breakeven list studies)"),
        (["a\nb\x1b"], "unknown study or model 'a\\nb\\x1b'"),
        (["\0"], "cannot be read"),
    ],
)
def test_unknown_what(what: list[str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_study(what)
    assert message in one_line(caught.value)


@pytest.mark.parametrize("task", ["train", "infer"])
def test_an_unknown_tuning_is_told_those_of_its_task_once(task: Task) -> None:
    """Those of the other task are none here; what a message lists is what `--tuning` takes."""
    with pytest.raises(UserError) as unknown:
        load_study(["resnet18"], {"task": task, "tuning": "turbo"})
    with pytest.raises(UserError) as other:
        load_study(["resnet18"], {"task": task, "tuning": "eager" if task == "train" else "ladder"})
    groups = ("ladder", "leave-one-out", "best") if task == "train" else ()
    for caught in (unknown, other):
        listed = str(caught.value).partition("known: ")[2].split(", ")
        assert listed == [*presets(task), *groups]
    for name in listed:
        assert load_study(["resnet18"], {"task": task, "tuning": f"{presets(task)[0]},{name}"})


def test_flags_override() -> None:
    study = load_study(
        ["quick"],
        {
            "model": ["resnet18,resnet50", "simple-cnn"],
            "batch": "1..4,128",
            "precision": "null,bf16",
            "device": "cpu",
            "tuning": ["workers", "{name: mine, layout: channels-last}"],
            "max-time": "20min",
            "name": "2026",
            "seed": None,
            "full": True,
            "set": ["recipe.lr=1e-2", "relative-ci=0.1", "title=a = b"],
        },
    )
    assert study.model == ("resnet18", "resnet50", "simple-cnn")
    assert study.batch == (1, 2, 4, 128) and study.precision == (None, "bf16") and study.device == ("cpu",)
    assert [tuning.name for tuning in study.tuning] == ["workers", "mine"]
    assert (study.max_time, study.name, study.seed, study.full) == (1200.0, "2026", (0,), True)
    assert (study.recipe.lr, study.relative_ci, study.title) == (0.01, 0.1, "a = b")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"batch": "0"}, "--batch: must be at least 1, not 0"),
        ({"batch": 0}, "--batch: must be at least 1, not 0"),
        ({"batch": "4,,8"}, "--batch: must be a whole number, not null"),
        ({"device": "cpu,gpu"}, "--device: unknown device 'gpu'"),
        ({"max_time": "soon"}, "--max-time: not a duration"),
        ({"tuning": "{name: x"}, "--tuning: is not valid YAML"),
        ({"tuning": "{name: x, layot: 1}"}, "--tuning: unknown; did you mean 'layout'?"),
        ({"name": "../x"}, "--name: must be letters"),
        ({"set": ["recipe.lrr=1"]}, "--set recipe.lrr: unknown; did you mean 'lr'?"),
        ({"set": ["recipe.lr=-1"]}, "--set recipe.lr: must be more than 0, not -1"),
        ({"set": ["model.x=1"]}, "--set model.x: 'model' holds a list, which has no keys"),
        ({"set": ["seed"]}, "--set 'seed': write KEY=VALUE"),
        ({"set": ["=3"]}, "--set '=3': write KEY=VALUE"),
        ({"set": "colour=red"}, "--set colour: unknown; known: "),
    ],
)
def test_faulty_flags_name_the_flag(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_study(["quick"], overrides)
    assert one_line(caught.value).startswith(message)


def test_a_tuning_that_the_study_defines_goes_by_its_name() -> None:
    made = load_study(["frameworks"], {"tuning": "fused,as-written"})
    (fused, written), whole = made.tuning, load_study(["frameworks"])
    assert written.name == written.preset == "as-written"
    assert fused in whole.tuning and fused.preset == "compile"
    # Of what is excluded, tunings that are no longer there are not: neither whole entries nor single names.
    assert len(whole.exclude) > len(made.exclude) > 0
    assert not any("tuning" in entry for entry in made.exclude)
    kept = load_study(["frameworks"], {"tuning": ["compiled"]})
    assert [entry["tuning"] for entry in kept.exclude if "tuning" in entry] == [("compiled",), ("compiled",)]


def test_a_fault_of_the_file_keeps_its_line_under_flags(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("model: resnet18\nrecipe:\n  epochs: 0\n")
    with pytest.raises(UserError, match=r"s\.yaml:3: key 'recipe\.epochs': must be at least 1"):
        load_study([str(path)], {"set": ["recipe.lr=0.1"]})


def test_shipped_schema_is_fresh() -> None:
    shipped = json.loads(catalog.schema_text())
    assert shipped == json_schema(), "write what json_schema() gives into it (indent 2, sorted keys)"
    jsonschema.Draft202012Validator.check_schema(shipped)


def test_builtin_studies_satisfy_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(catalog.schema_text()))
    for name in catalog.study_names():
        validator.validate(yaml.safe_load(catalog.study_text(name)))
        assert builtin_studies()[name].name == name
    validator.validate(parse(FULL, "f.yaml").values)
    for text in ("modle: x", M + "batch: 0", M + "seed: '1'", M + "tuning: [{layout: nhwc, name: x}]"):
        assert not validator.is_valid(yaml.safe_load(text)), text


def test_builtin_studies_say_what_they_promise() -> None:
    quick, scale = builtin_studies()["quick"], builtin_studies()["model-scale"]
    assert (quick.replicates, quick.max_replicates) == (
        3,
        3,
    ) and quick.attempt_time <= 3  # the design: at most 3 s an attempt
    assert quick.model == ("simple-cnn", "resnet18") and quick.data == ("digits",)
    assert scale.model == ("simple-cnn", "resnet18", "resnet50") and scale.data == ("cifar10",)
    assert scale.batch == (128,) and scale.recipe == Recipe()
    sizes, deep = builtin_studies()["scale"], builtin_studies()["deep"]
    assert set(scale.model) < set(sizes.model) and len(sizes.model) == 14
    assert (sizes.data, sizes.batch, sizes.recipe) == (scale.data, scale.batch, scale.recipe)
    assert {"resnet152", "vit-base"} <= set(deep.model) and {"bf16", "fp16"} <= set(deep.precision)


@pytest.mark.parametrize("name", MODELS)
def test_a_models_name_is_a_study(name: str) -> None:
    study = load_study((name,))
    assert (study.model, study.name) == ((name,), name)
    assert read_study(json.dumps(resolved(study)), "again") == study


def test_builtin_studies_plan_without_a_framework() -> None:
    """In an interpreter that cannot import torch, for a machine with a GPU: both train every model, but for
    studies of cores."""
    script = """
import sys
sys.modules["torch"] = None
from breakeven.runner.plan import plan, supported
from breakeven.runner.study import builtin_studies
for name, study in builtin_studies().items():
    made = plan(study, cores=16, gpus=1, supports=supported)
    found = {(item.case.work.model, item.case.device.kind) for item in made.cases}
    kinds = ("cpu",) if study.device == ("cpu-threads",) else ("cpu", "cuda")
    assert found == {(model, kind) for model in study.model for kind in kinds}, name
    assert not [note for note in made.notes if "exclude" in note], made.notes
    print(name, len(made.cases))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[::2] == list(catalog.study_names())


def test_the_best_of_scale_has_equal_numerics_on_both_devices() -> None:
    made = plan(builtin_studies()["scale"], cores=16, gpus=1)
    tunings = {(item.tuning_name, item.case.device.kind): item.case.tuning for item in made.cases}
    for name, precision in {"compiled": "default", "compiled bf16": "bf16"}.items():
        cpu, gpu = tunings[name, "cpu"], tunings[name, "cuda"]
        assert (cpu.precision, gpu.precision) == (precision, precision)
        assert cpu.compile_mode and gpu.compile_mode and gpu.captured
        assert cpu.layout == gpu.layout == "channels-last"


# Mutations of a valid study, and text that never was one.
LINES = FULL.splitlines()
mutated = st.builds(
    lambda at, length, new: FULL[:at] + new + FULL[at + length :],
    st.integers(0, len(FULL)),
    st.integers(0, 40),
    st.one_of(
        st.text(max_size=12), st.sampled_from(["- ", ": ", "[", "{", "&a ", "*a", "!!int ", "\n", "..", "'"])
    ),
)
shuffled = st.lists(st.sampled_from(LINES), max_size=12).map("\n".join)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["cpu", "bf16"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(AXES) | st.text(max_size=5), inner)
    ),
    max_leaves=6,
)
documents = st.dictionaries(st.sampled_from(sorted(StudyKeys.model_fields)), values, max_size=5).map(
    lambda value: yaml.safe_dump({"model": "resnet18", **value}, allow_unicode=True)
)


@settings(max_examples=1000)
@given(st.one_of(mutated, shuffled, documents, st.text(max_size=200), st.binary(max_size=200)))
def test_any_text_gives_a_study_or_one_line(text: str | bytes) -> None:
    try:
        study = read_study(text, "f.yaml")
    except UserError as error:
        one_line(error)
    else:
        json.dumps(resolved(study), allow_nan=False)
        assert read_study(json.dumps(resolved(study)), "again") == study


@settings(max_examples=200)
@given(
    st.dictionaries(
        st.sampled_from([*sorted(StudyKeys.model_fields), "set"]),
        st.text(max_size=20) | st.just("a.b=1"),
        max_size=3,
    )
)
def test_any_flags_give_a_study_or_one_line(overrides: dict[str, str]) -> None:
    try:
        load_study(["quick"], overrides)
    except UserError as error:
        one_line(error)


def test_a_study_of_cyclegan_gets_its_data_its_batch_and_its_recipe() -> None:
    alone = load_study(["cyclegan"])
    assert (alone.data, alone.batch) == (("digits-3-8",), (1,))
    planned = plan(alone, cores=2, gpus=0)
    assert {item.case.work.recipe for item in planned.cases} == {cyclegan.RECIPE}
    mixed = plan(load_study(["conv6", "cyclegan"]), cores=2, gpus=0)
    found = {(i.case.work.model, i.case.work.data, i.case.work.batch) for i in mixed.cases}
    assert found == {("conv6", "digits", 128), ("cyclegan", "digits-3-8", 1)}
    assert {i.case.work.recipe for i in mixed.cases} == {Recipe(), cyclegan.RECIPE}


def test_a_recipe_of_cyclegan_is_its_papers_but_for_what_is_said() -> None:
    study = load_study(["cyclegan"], {"set": ["recipe.loss=cyclegan", "recipe.pool=0"]})
    assert study.recipe == dataclasses.replace(cyclegan.RECIPE, pool=0)
    assert read_study(json.dumps(resolved(study))) == study


@pytest.mark.parametrize(
    ("models", "settings", "words"),
    [
        (["conv6"], ["recipe.pool=3"], "pool is of loss cyclegan only"),
        (["conv6", "cyclegan"], ["recipe.loss=cyclegan"], "no loss of conv6"),
        (["cyclegan"], ["recipe.lr=0.1"], "trained by loss: cyclegan"),
        (["cyclegan"], ["recipe.loss=cyclegan", "recipe.accumulation=2"], "do not accumulate"),
    ],
)
def test_recipes_of_the_other_loss_are_refused(models: list[str], settings: list[str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        load_study(models, {"set": settings})


def test_cyclegan_on_data_of_one_domain_is_skipped() -> None:
    with pytest.raises(UserError, match="translates between two domains: use digits-3-8 or pairs"):
        plan(load_study(["cyclegan"], {"data": "digits"}), cores=2, gpus=0)
