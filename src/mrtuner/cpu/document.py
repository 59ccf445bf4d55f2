"""A record and its diagnosis as one JSON document, ``mrtuner.cpu/1``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from mrtuner.cpu.advice import advice
from mrtuner.cpu.diagnose import diagnose
from mrtuner.cpu.model import Record, Trial

SCHEMA: Final = "mrtuner.cpu/1"


def document(record: Record) -> dict[str, Any]:
    """Return all observations and their interpretation; `report.cpu` needs nothing else."""
    found = diagnose(record)
    told = asdict(record)
    told["usable"]["words"] = record.usable.words()
    told["trials"] = [_trial(trial) for trial in record.trials]
    return {
        "schema": SCHEMA,
        **told,
        "diagnosis": asdict(found),
        "advice": list(advice(record, found)),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    told = asdict(trial)
    for shown, worker in zip(told["workers"], trial.workers, strict=True):
        shown["wall"] = worker.wall
        shown["rest"] = worker.rest
    return told
