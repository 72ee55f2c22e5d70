"""Money: a user's prices, and the number a month from which the dearer device is the cheaper choice.

Knows nothing about cases: seconds and prices in, numbers out.
"""

import math
from collections.abc import Mapping
from typing import Any

from breakeven.analysis.advise_findings import HOURS_A_MONTH, Price, Prices
from breakeven.errors import UserError

MOST_MACHINES = 10_000
"""Rented machines beyond which no break-even is looked for."""
ROUNDING = 1e-9
"""What a quotient of prices may miss a whole number by: 3 x 1.50 / 4.50 is one machine."""
SECONDS_A_MONTH = 3600 * HOURS_A_MONTH


def prices_of(values: Mapping[str, Any], source: str) -> Prices:
    """The prices that a file names: `currency`, and `devices: {LABEL: {hour: X, month: Y}}`.

    A number alone is a price an hour. Raises UserError, one line, for anything else.
    """
    devices = values.get("devices")
    if not isinstance(devices, Mapping) or not devices:
        raise UserError(f"{source}: name a price: devices: {{'cuda:0': {{hour: 3.5, month: 1800}}}}")
    if odd := sorted(set(values) - {"currency", "devices"}):
        raise UserError(f"{source}: unknown key {odd[0]!r}; known: currency, devices")
    currency = values.get("currency")
    if not isinstance(currency, str) or not currency.strip():
        raise UserError(f"{source}: name the currency: currency: EUR")
    return Prices(
        currency=currency.strip(), devices={str(k): _price(v, f"{source}: {k}") for k, v in devices.items()}
    )


def _price(value: Any, where: str) -> Price:
    given = value if isinstance(value, Mapping) else {"hour": value}
    if odd := sorted(set(map(str, given)) - {"hour", "month"}):
        raise UserError(f"{where}: unknown key {odd[0]!r}; a price has hour and month")
    found = {key: _amount(text, f"{where}: {key}") for key, text in given.items()}
    if not found:
        raise UserError(f"{where}: has neither hour nor month")
    return Price(**found)


def _amount(text: Any, where: str) -> float:
    try:
        amount = float(str(text))
    except ValueError:
        amount = math.nan
    if not (amount > 0 and math.isfinite(amount)):
        raise UserError(f"{where}: {text!r} is no price above 0")
    return amount


def monthly(dear_s: float, dear_month: float, cheap_s: float, cheap_month: float) -> int | None:
    """The least number a month from which the dear machines cost less, whatever larger number; None: never.

    Whole machines are rented by the month on both sides, as many as the work needs (`SECONDS_A_MONTH` each);
    `dear_s` and `cheap_s` are seconds a unit of work.
    """
    if dear_s * dear_month >= cheap_s * cheap_month * (1 - ROUNDING):
        return None
    # The dear side loses only while whole machines of its own stand half empty: up to this number.
    a_unit = (cheap_s * cheap_month - dear_s * dear_month) / SECONDS_A_MONTH
    last = min(math.ceil(dear_month / a_unit * dear_s / SECONDS_A_MONTH) + 1, MOST_MACHINES)
    for machines in range(last, 0, -1):
        most = math.floor(machines * SECONDS_A_MONTH / dear_s)  # units that so many dear machines do
        least = math.floor((machines - 1) * SECONDS_A_MONTH / dear_s) + 1
        # The cheap side is no dearer while it gets along with this many machines.
        enough = math.floor(machines * dear_month / cheap_month + ROUNDING)
        bad = min(most, math.floor(enough * SECONDS_A_MONTH / cheap_s))
        if bad >= least:
            return bad + 1
    return 1


def monthly_against_hours(dear_s: float, dear_month: float, cheap_s: float, cheap_hour: float) -> int | None:
    """The same where the cheap device is paid by the hour: it costs nothing while it stands still."""
    cheap = cheap_s * cheap_hour / 3600
    if dear_s * dear_month / SECONDS_A_MONTH >= cheap * (1 - ROUNDING):
        return None
    a_unit = cheap - dear_s * dear_month / SECONDS_A_MONTH
    last = min(math.ceil(dear_month / a_unit * dear_s / SECONDS_A_MONTH) + 1, MOST_MACHINES)
    for machines in range(last, 0, -1):
        most = math.floor(machines * SECONDS_A_MONTH / dear_s)
        least = math.floor((machines - 1) * SECONDS_A_MONTH / dear_s) + 1
        bad = min(most, math.floor(machines * dear_month / cheap + ROUNDING))
        if bad >= least:
            return bad + 1
    return 1
