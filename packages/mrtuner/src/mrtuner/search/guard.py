"""When a trial on a live server is taken back at once: what its window may cost.

`live` asks while a window runs, and takes the trial back.
"""

from __future__ import annotations

from typing import Final

from mrtuner.search.window import Window, speeds
from mrtuner.units import Bytes, MiB, pretty_bytes

#: Transactions or calls below which a rate says nothing yet.
_FEW: Final = 50
#: Before, backends may have reported nothing to pg_stat_database: they do about once a second.
_REPORTED_S: Final = 2.0
#: Rollbacks: this share more than before, and so many.
_ROLLBACKS, _FEW_ROLLBACKS = 0.01, 10
_SLOWER: Final = 1.5
#: A statement that still runs may take so much longer [s] than 1.5 times what it ever took.
_PATIENCE_S: Final = 5.0
_COLLAPSED: Final = 0.5
_BEHIND: Final = Bytes(64 * MiB)


def trip(untouched: Window, now: Window) -> str | None:
    """Return why a tried window must end at once, against an untouched one; None if it may go on.

    `now` is the window so far.
    """
    for whose, before, after in (
        (
            "its transactions",
            (untouched.commits, untouched.rollbacks),
            (now.commits, now.rollbacks),
        ),
        ("the transactions of other databases", untouched.others, now.others),
    ):
        if (share := _failing(before, after)) is not None:
            return f"{share:.1%} of {whose} were rolled back"
    counted = untouched.statements is not None and now.statements is not None
    usual, done = (one.work if counted else one.commits for one in (untouched, now))
    expected = usual / untouched.seconds * now.seconds
    if now.seconds >= _REPORTED_S and expected >= _FEW and done < _COLLAPSED * expected:
        return f"its throughput fell to {done / expected:.0%} of the untouched server's"
    if now.work >= _FEW:
        rates = speeds([untouched, now])
        if rates is not None and rates[0] > _SLOWER * rates[1]:
            return f"its statements took {rates[0] / rates[1]:.1f} times as long"
    for age, longest in now.overdue:
        if age > _SLOWER * longest + _PATIENCE_S:
            return f"a statement has run for {age:.0f} s, and never took more than {longest:.1f} s"
    if (now.behind or 0) > (untouched.behind or 0) + _BEHIND:
        return f"a standby is {pretty_bytes(Bytes(int(now.behind or 0)))} behind in replay"
    return None


def _failing(before: tuple[float, float], now: tuple[float, float]) -> float | None:
    """Return the share of transactions rolled back if it rose; each is commits and rollbacks."""
    (_, failed), ended = now, sum(now)
    share = before[1] / sum(before) if sum(before) else 0.0
    rose = failed >= _FEW_ROLLBACKS and failed > (share + _ROLLBACKS) * ended
    return failed / ended if rose else None
