"""Numbers, money, times and ages as they are written everywhere. What is not known is `n/a`, never 0."""

from __future__ import annotations

from datetime import datetime, timedelta

from npa_tui.moments import moment
from npa_tui.state import View

HOUR = 3600


def money(usd: float | None) -> str:
    """`$412.68`, from a thousand on without cents."""
    if usd is None:
        return "n/a"
    return f"${usd:,.2f}" if usd < 1000 else f"${usd:,.0f}"


def spend(view: View) -> str:
    """The project's spend a day; `at least` where a price is not known."""
    floor = "at least " if view.spend_floor and view.spend is not None else ""
    return floor + money(view.spend)


def amount(usd_per_hour: float | None, dot: str) -> str:
    """A row's price a day: two digits after the point, a dot for what is free, `n/a` where no price is known."""
    if usd_per_hour is None:
        return "n/a"
    day = usd_per_hour * 24.0
    return f"{day:,.2f}" if day >= 0.005 else dot


def number(n: int) -> str:
    return f"{n:,}".replace(",", " ")


def span(seconds: float) -> str:
    """`0:48`, `13:56`, `2:03:11`."""
    s = max(0, int(seconds))
    return f"{s // HOUR}:{s // 60 % 60:02}:{s % 60:02}" if s >= HOUR else f"{s // 60}:{s % 60:02}"


def elapsed(began: str, ended: str, now: datetime) -> str:
    """How long something took, or takes so far; empty when it has not begun."""
    start = moment(began)
    if start is None:
        return ""
    return span(((moment(ended) or now) - start).total_seconds())


def age(of: timedelta) -> str:
    """`12 s`, `4 min`, `3 h`, `9 d`."""
    s = int(of.total_seconds())
    for limit, size, unit in ((120, 1, "s"), (2 * HOUR, 60, "min"), (48 * HOUR, HOUR, "h")):
        if s < limit:
            return f"{s // size} {unit}"
    return f"{s // (24 * HOUR)} d"


def since(text: str, now: datetime) -> str:
    """The age of something that carries a timestamp; empty when it carries none."""
    at = moment(text)
    return age(max(timedelta(0), now - at)) if at else ""


def clock(at: datetime) -> str:
    """`14:03:22Z`."""
    return at.strftime("%H:%M:%SZ")


def clock_of(text: str) -> str:
    """The clock time of a timestamp, without its zone: the log has one column for it."""
    at = moment(text)
    return at.strftime("%H:%M:%S") if at else "--:--:--"


def day_and_clock(text: str) -> str:
    """`2026-03-04 14:02:11Z`."""
    at = moment(text)
    return at.strftime("%Y-%m-%d %H:%M:%SZ") if at else "n/a"
