"""Autovacuum and TOAST: what each table needs, whether vacuum keeps up, and what blocks it."""

from __future__ import annotations

from mrtuner.vacuum.assess import Vacuum, judge, vacuum
from mrtuner.vacuum.horizon_blockers import Thresholds
from mrtuner.vacuum.model import TableKind, TableReport
from mrtuner.vacuum.read import Enough

__all__ = ["Enough", "TableKind", "TableReport", "Thresholds", "Vacuum", "judge", "vacuum"]
