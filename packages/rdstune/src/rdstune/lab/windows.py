"""When windows open, and which windows RDS refuses; the notation is `Window`'s."""

from __future__ import annotations

from datetime import datetime, timedelta

from mrtuner.errors import BadValue
from rdstune.fleet.maintenance_windows import DAY, WEEK, Window
from rdstune.lab.refusals import invalid_value


def next_window(window: str, now: datetime) -> datetime:
    """Return when a weekly window opens next, strictly after `now`."""
    return Window.parse(window).beginning_after(now + timedelta.resolution).start


def check_windows(backup: str, maintenance: str) -> None:
    """Require at least 30 minutes each, and no overlap.

    Source: botocore, CreateDBInstanceMessage.
    """
    try:
        daily, weekly = Window.parse(backup), Window.parse(maintenance)
    except BadValue as error:
        raise invalid_value(error.message) from None
    if (daily.period, weekly.period) != (DAY, WEEK):
        raise invalid_value(f"Invalid window format: {backup}, {maintenance}")
    if daily.overlaps(weekly):
        raise invalid_value("The backup window and maintenance window must not overlap.")
