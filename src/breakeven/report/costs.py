"""What a case costs: energy of an image, an epoch and a run, and money where the user gave prices.

Knows nothing about how energy was read. Joules are gross, of the counter's scope.
"""

from breakeven.analysis.advise_findings import Price, Prices
from breakeven.analysis.advise_phrases import IMAGES, money
from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.report import words
from breakeven.report.machines import split
from breakeven.report.names import Names, naming
from breakeven.report.view import Cell, Section, absent, build_table, number

NO_PRICE = "no price of this device"


def costs(understanding: Understanding, names: Names, prices: Prices) -> Section | None:
    """One row a case with a number: joules, and the price of a million images, an epoch and a whole run."""
    columns = [
        *names.columns,
        number("energy an image"),
        number("energy an epoch"),
        number("a million images", prices.currency),
        number("an epoch", prices.currency),
        number("a run", prices.currency),
    ]
    shown = [c for c in understanding.cases if c.samples_per_s_point]
    table = build_table(
        columns, [(*naming(c, names), *_cells(c, prices.of(split(c.device_label)[0]))) for c in shown]
    )
    if table is None:
        return None
    note = (
        "Prices are the user's: an hour as rented, of a monthly price alone an hour of a month in full use "
        "(730 hours). A million images: pipelined, of training through its steps. A run: the forecast of all "
        "its epochs. Energy is gross; an epoch's is the power of its steps over its time."
    )
    return Section(key="costs", title="What it costs", note=note, table=table)


def _cells(c: CaseFinding, price: Price | None) -> tuple[Cell, ...]:
    why = c.reasons.get("energy_j_per_step", "energy was not read")
    joules = c.energy_j_per_step
    epoch = c.epoch_s.estimate if c.epoch_s else c.epoch_point_s
    run = c.total_s.estimate if c.total_s else c.total_point_s
    rate = c.rate
    image = None if joules is None else joules / c.case.work.batch
    of_epoch = c.power_w * epoch if c.power_w is not None and epoch else None
    return (
        words.amount(image, "J", why, c.evidence, borne=c.step_s),
        words.amount(of_epoch, "J", why, c.evidence, borne=c.epoch_s),
        _priced(IMAGES / rate if rate else None, price, "no number"),
        _priced(epoch, price, c.reasons.get("epoch_s", "no epoch")),
        _priced(run, price, c.reasons.get("total_s", "no run")),
    )


def _priced(seconds: float | None, price: Price | None, why: str) -> Cell:
    if price is None or seconds is None:
        return absent(NO_PRICE if price is None else why)
    cost = seconds / 3600 * price.an_hour
    return Cell(text=money(cost), sort=cost)
