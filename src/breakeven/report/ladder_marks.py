"""What the chart of the ladders draws: one mark a step and device, with the words beside it.

Knows nothing about how a mark is drawn.
"""

import difflib
from collections.abc import Mapping, Sequence

from breakeven.analysis.findings import BestFinding, CaseFinding, LadderFinding, StepFinding
from breakeven.report import words
from breakeven.report.doubts import Cases, doubt, explained
from breakeven.report.names import Names
from breakeven.report.view import Chart, Value, clean
from breakeven.stats import Verdict
from breakeven.units import format_duration

# What a step adds, for those who never heard of presets; a name that is not here stands for itself.
ADDS = {
    "as-written": "as written",
    "workers": "+ loader workers",
    "on-device": "+ data on the device",
    "no-sync": "+ no wait for the loss",
    "cuda-graph": "+ CUDA graph",
    "threads": "+ the right threads",
    "channels-last": "+ channels-last",
    "bf16": "+ BF16",
    "compile": "+ compiler",
}
BEST = {"same": "best, same numerics", "any": "best, any numerics"}
FEWEST = 2
READING = (
    "Each row adds one change to the row above; further left is faster. "
    "6x: six times as fast as the row above; ?: cannot tell."
)


def ladder_chart(ladders: Sequence[LadderFinding], names: Names, cases: Cases) -> Chart | None:
    """The time of a step, tuning by tuning, one panel a model; None where no two steps have a time."""
    timed = [one for one in ladders if sum(step.point_s is not None for step in one.steps) >= FEWEST]
    if not timed:
        return None
    rows = merged([[step.name for step in one.steps] for one in timed])
    told = telling(timed)
    values = [mark for one in timed for mark in _marks(one, rows, told, names, cases)]
    used = {str(value["row"]) for value in values}
    shown = [*(_row(index, name) for index, name in enumerate(rows)), *_best_rows(len(rows))]
    alt = (
        "Time of a training step on a logarithmic axis, one row a tuning, each adding one change to the row "
        "above, one line a device. The number beside a mark says how many times as fast as the row above it "
        "is. The table below holds every number."
    )
    return Chart(
        kind="ladder",
        name="ladder",
        title="Time of a training step, tuning by tuning",
        subtitle=explained(values, READING),
        alt_text=alt,
        values=tuple(values),
        tunings=tuple(row for row in shown if row in used),
        devices=tuple(dict.fromkeys(names.devices[one.device_label] for one in timed)),
    )


def telling(ladders: Sequence[LadderFinding]) -> tuple[str, ...]:
    """What tells two ladders of one model and device apart: runtime, batch, data, seed, at last the file."""
    names = [name for name in ("batch", "data", "seed") if len({getattr(x, name) for x in ladders}) > 1]
    # A simulated device has a runtime of its own, which its name says.
    if len({(x.device_label, x.runtime) for x in ladders}) > len({x.device_label for x in ladders}):
        names.insert(0, "runtime")
    places = [(x.model, x.device_label, *(getattr(x, name) for name in names)) for x in ladders]
    return (*names, *(["source"] if len(set(places)) < len(places) else []))


def merged(orders: Sequence[Sequence[str]]) -> list[str]:
    """Rows in which every order goes downwards; a name that two orders place differently has two rows."""
    rows: list[str] = []
    for order in orders:
        out: list[str] = []
        for _, i1, i2, j1, j2 in difflib.SequenceMatcher(a=rows, b=order, autojunk=False).get_opcodes():
            equal = rows[i1:i2] == list(order[j1:j2])
            out += rows[i1:i2] if equal else [*rows[i1:i2], *order[j1:j2]]
        rows = out
    return rows


def _row(index: int, name: str) -> str:
    """A row's key: its place keeps two rows of one name apart, and is not shown."""
    return f"{index:02d} {clean(ADDS.get(name, name))}"


def _best_rows(count: int) -> list[str]:
    return [f"{count + index:02d} {text}" for index, text in enumerate(BEST.values())]


def _marks(
    one: LadderFinding, rows: Sequence[str], told: Sequence[str], names: Names, cases: Cases
) -> list[Mapping[str, Value]]:
    panel = ", ".join([one.model, *(f"{name} {getattr(one, name)}" for name in told)])
    common: dict[str, Value] = {
        "model": clean(panel),
        "device": names.devices[one.device_label],
        "batch": one.batch,
    }
    marks: list[Mapping[str, Value]] = []
    start = 0
    for step in one.steps:
        place = rows.index(step.name, start)
        start = place + 1
        if step.point_s is not None:
            case = cases.get((one.source, step.case_id))
            mark = {**common, **_step_mark(step, _row(place, step.name), case), "step": place}
            # The first mark has nothing to be set against: it says which device the line is.
            marks.append(mark if step.win else {**mark, "label": common["device"]})
    for found in one.best:
        if found.point_s is not None:
            row = _best_rows(len(rows))[list(BEST).index(found.numerics)]
            marks.append({**common, **_best_mark(found, row), "step": None})
    return marks


def _step_mark(step: StepFinding, row: str, case: CaseFinding | None) -> dict[str, Value]:
    flags = case.flags if case else ()
    return {
        "row": row,
        "tuning": clean(step.name),
        "precision": clean(case.case.tuning.precision) if case else "not known",
        **doubt(flags, known=step.step_s is not None),
        "label": _label(step) if step.win else "",
        **_time(step),
        "won": words.ratio(step.win.ratio, step.win.point).text if step.win else "",
    }


def _best_mark(found: BestFinding, row: str) -> dict[str, Value]:
    times = f"{_plain(found.win.point)}x as written" if found.win and found.win.point else ""
    return {
        "row": row,
        "tuning": clean(found.tuning_name or ""),
        "precision": clean(found.precision or "not known"),
        **doubt(found.flags, known=found.step_s is not None),
        "label": times,
        **_time(found),
        "won": clean(f"{times}: {found.tuning_name}"),
    }


def _time(found: StepFinding | BestFinding) -> dict[str, Value]:
    point = found.step_s.estimate if found.step_s else found.point_s
    return {
        "ms": None if point is None else 1e3 * point,
        "low": 1e3 * found.step_s.low if found.step_s else None,
        "high": 1e3 * found.step_s.high if found.step_s else None,
        "estimate": "" if point is None else format_duration(point),
        "shown": words.describe(found.step_s, format_duration) if found.step_s else "one process",
    }


def _label(step: StepFinding) -> str:
    """What stands beside a mark: the win, and in words where it is none."""
    win = step.win
    if win is None or win.point is None:
        return ""
    times = f"{_plain(win.point)}x"
    match win.verdict:
        case Verdict.SLOWER:
            return f"{times}: slower"
        case Verdict.SAME:
            return "the same"
        case Verdict.FASTER:
            return times
        case _:
            return f"{times} ?"


def _plain(ratio: float) -> str:
    """Two digits; near 1, where they would hide a win, two decimals."""
    return f"{ratio:.2f}" if 0.895 < ratio < 1.095 else words.significant(ratio)
