"""Where a setting is searched: a quarter to four times the advice, and its special values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, floor, log, log2
from typing import Any, Final

from mrtuner.catalog import Parameter
from mrtuner.errors import BadValue
from mrtuner.search.model import BindingEvidence, SearchedSetting, SettingLeftOut
from mrtuner.search.profile import table
from mrtuner.units import Bytes, memory_unit

#: The box around the advice.
_FACTOR: Final = 4
#: Each restart costs a warm-up: few values, so that many trials share one.
_LADDER: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
#: Share of the range that stands for the special values. Source: LlamaTune, VLDB 2022.
_SPECIAL: Final = 0.2
#: What means the same. Source: PostgreSQL documentation, wal_compression, from 15 on.
_SYNONYMS: Final = {("wal_compression", "on"): "pglz"}
#: More settings than this need more trials than a budget has.
MOST: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One setting of a search. `at` is a place in it: 0 to 1, or the number of one of `values`."""

    setting: SearchedSetting
    parameter: Parameter
    low: float = 0.0  # in the parameter's unit
    high: float = 0.0
    ordered: bool = True  # whether neighbours in `values` are alike

    @property
    def name(self) -> str:
        return self.setting.name

    def text(self, at: float) -> str:
        """Return the value at a place, as in a configuration file."""
        if self.setting.values:
            return self.setting.values[int(at)]
        special = self.setting.special
        if special and at < _SPECIAL:
            return special[min(int(at / _SPECIAL * len(special)), len(special) - 1)]
        share = (at - self._first) / (1 - self._first)
        value = exp(log(self.low) + share * (log(self.high) - log(self.low)))
        return _shown(self.parameter, value, self.low, self.high)

    def place(self, text: str) -> float | None:
        """Return where a value lies; None if it is not in what is searched."""
        if self.setting.values:
            known = self.setting.values
            return float(known.index(text)) if text in known else None
        special = self.setting.special
        if text in special:
            return (special.index(text) + 0.5) / len(special) * _SPECIAL
        try:
            value = self.parameter.parse(text)
        except BadValue:
            return None
        if isinstance(value, str) or not self.low <= value <= self.high:
            return None
        share = (log(value) - log(self.low)) / (log(self.high) - log(self.low))
        return self._first + share * (1 - self._first)

    @property
    def _first(self) -> float:
        """Where the range begins, after the special values."""
        return _SPECIAL if self.setting.special else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a search has to know of the server: its parameters, and the values that it accepts."""

    parameters: Mapping[str, Parameter]
    accepted: Mapping[str, Sequence[str]]  # of settings with a list of values
    memory: int | None = None  # bytes; None: unknown
    fixed: Mapping[str, str] = field(default_factory=dict)  # settings not to be changed, and why

    def shown(self, name: str, text: str) -> str:
        """Return a value in its shortest form, so that equal values are equal texts."""
        known = self.parameters.get(name)
        if known is None:
            return text
        text = known.show(known.parse(text))
        synonym = _SYNONYMS.get((name, text), text)  # where the parameter is no boolean
        return synonym if synonym in (known.enum or ()) else text

    def default(self, name: str) -> str:
        """Return what initdb gives; empty if that depends on the machine."""
        known = self.parameters.get(name)
        return "" if known is None or known.default is None else known.show(known.default)

    def bytes(self, name: str, settings: Mapping[str, str]) -> Bytes:
        """Return the size that a setting has in these settings, else by default."""
        known = self.parameters[name]
        value = known.parse(settings.get(name, self.default(name)))
        return Bytes(int(float(value) * (memory_unit(known.unit or "B") or 1)))

    def refuses(self, settings: Mapping[str, str]) -> list[str]:
        """Return the settings with values that this server does not accept, or that never change.

        Builds differ: not every one can compress by lz4.
        """
        return [
            name
            for name, text in settings.items()
            if name not in self.parameters
            or name in table()["never"]
            or (name in self.accepted and text not in self.accepted[name])
        ]

    def require(self, names: Collection[str]) -> None:
        """Raise BadValue for settings to keep that this version does not have."""
        if unknown := sorted(set(names) - self.parameters.keys()):
            raise BadValue(
                f"--keep names {unknown[0]}, which this version does not have",
                "Give names of settings, such as work_mem.",
            )

    def restarts(self, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
        """Whether it takes a restart to go from one side to the other."""
        names = {*one, *other}
        return any(
            self.parameters[name].restart
            for name in names
            if one.get(name, self.default(name)) != other.get(name, self.default(name))
        )


def dimensions(searched: Sequence[SearchedSetting], server: Server) -> list[Dimension]:
    """Return what is searched, from its record."""
    return [_dimension(one, server.parameters[one.name]) for one in searched]


def choose(
    seen: Sequence[BindingEvidence],
    server: Server,
    advice: Mapping[str, str],
    keep: Collection[str],
) -> tuple[list[SearchedSetting], list[SettingLeftOut]]:
    """Return the settings to search, by what binds, and those left out with the reason."""
    known = {one.mechanism: one for one in seen}
    searched: list[SearchedSetting] = []
    left_out: list[SettingLeftOut] = []
    for entry in table()["knobs"]:
        name = entry["name"]
        binding = [one for one in entry["mechanisms"] if one in known and known[one].binds]
        why = _why_not(entry, server, keep, advice) or ("" if binding else _unbound(entry, known))
        made = None if why else _setting(entry, server, advice, binding[0])
        if not why and made is None:
            why = "this server accepts no other value"
        if not why and len(searched) == MOST:
            why = f"{MOST} settings are as many as a search can tell apart"
        if made is not None and not why:
            searched.append(made)
        else:
            left_out.append(SettingLeftOut(name=name, why=why))
    for part in ("unseen", "never"):
        left_out += [SettingLeftOut(name=name, why=why) for name, why in table()[part].items()]
    return searched, left_out


def _why_not(
    entry: Mapping[str, Any], server: Server, keep: Collection[str], advice: Mapping[str, str]
) -> str | None:
    if entry["name"] not in server.parameters:
        return "this version does not have it"
    if entry["name"] in keep:
        return "it was to be kept"
    without = inactive(entry, {one: server.default(one) for one in server.parameters} | {**advice})
    return server.fixed.get(entry["name"]) or without


def _unbound(entry: Mapping[str, Any], known: Mapping[str, BindingEvidence]) -> str:
    """Return what was seen of the mechanisms that a setting acts on, none of which binds."""
    seen = [(name, known.get(name)) for name in entry["mechanisms"]]
    return "; ".join(
        f"{name}: could not be seen" if one is None or one.value is None
        else f"{name}: {one.value:g}, below {one.least:g}"
        for name, one in seen
    )  # fmt: skip


def inactive(entry: Mapping[str, Any], values: Mapping[str, str]) -> str | None:
    """Return why a setting of the table does nothing with these values; None if it acts."""
    for name, text in entry.get("only", {}).items():
        if values.get(name) != text:
            return f"it acts only with {name} = {text}"
    return None


def _setting(
    entry: Mapping[str, Any], server: Server, advice: Mapping[str, str], mechanism: str
) -> SearchedSetting | None:
    """Return a setting of the table as it is searched here; None if nothing can be tried."""
    name = entry["name"]
    parameter = server.parameters[name]
    now = advice.get(name, server.default(name))
    special = tuple(text for text in entry.get("special", ()) if _valid(parameter, text))
    values: tuple[str, ...] = ()
    low = high = None
    if "values" in entry:
        values = tuple(_accepted(entry["values"], server, parameter, now))
    else:
        centre = _centre(parameter, entry.get("centre", now) if now in special else now)
        if centre is None:
            return None
        ends = _box(parameter, centre)
        if parameter.restart:
            values = tuple(
                text
                for text in _ladder(parameter, now, centre, ends, special)
                if text == now or not _above_memory(entry, text, server)
            )
        else:
            low, high = (_shown(parameter, end, *ends) for end in ends)
            if low == high:
                return None
    if len(values) == 1:
        return None
    return SearchedSetting(
        name=name, mechanism=mechanism, why=entry["why"], advice=now, values=values,
        low=low, high=high, special=() if values else special, restart=parameter.restart,
    )  # fmt: skip


def _above_memory(entry: Mapping[str, Any], text: str, server: Server) -> bool:
    """Whether a size that must lie within memory is all of it, or more."""
    if not entry.get("in_memory") or server.memory is None:
        return False
    return server.bytes(entry["name"], {entry["name"]: text}) >= server.memory


def _accepted(
    texts: Sequence[str], server: Server, parameter: Parameter, now: str
) -> Iterator[str]:
    """Yield the values that differ: on means pglz where there are several methods."""
    several = parameter.vartype == "enum"
    for text in dict.fromkeys((now, *texts)):
        known = server.accepted.get(parameter.name, parameter.enum or ("on", "off"))
        if text in known and not (several and text == "on" and text != now):
            yield text


def _centre(parameter: Parameter, text: str) -> float | None:
    """Return the value to search around; None if it has no neighbours."""
    try:
        value = parameter.parse(text)
    except BadValue:
        return None
    return None if isinstance(value, str) or value <= 0 else float(value)


def _box(parameter: Parameter, centre: float) -> tuple[float, float]:
    """Return the range around a value, within the parameter's bounds."""
    least, most = parameter.bounds
    if parameter.vartype == "integer":
        least = max(least, 1)
    return max(centre / _FACTOR, least), min(centre * _FACTOR, most)


def _ladder(
    parameter: Parameter, now: str, centre: float, ends: tuple[float, float],
    special: Sequence[str],
) -> Iterator[str]:  # fmt: skip
    """Yield the special values, then steps around the value now, which is among them."""
    steps = {factor: _shown(parameter, centre * factor, *ends) for factor in _LADDER}
    if now not in special:
        steps[1.0] = now
    yield from dict.fromkeys((*special, *steps.values()))


def _dimension(one: SearchedSetting, parameter: Parameter) -> Dimension:
    if one.values:
        return Dimension(setting=one, parameter=parameter, ordered=parameter.vartype != "enum")
    low, high = (float(parameter.parse(end or "")) for end in (one.low, one.high))
    return Dimension(setting=one, parameter=parameter, low=low, high=high)


def _shown(parameter: Parameter, value: float, low: float, high: float) -> str:
    """Return a value in round figures: a size in quarters of a power of two, else two digits."""
    if parameter.unit is not None and memory_unit(parameter.unit) is not None:
        step = 2.0 ** max(floor(log2(value)) - 2, 0)
        value = round(value / step) * step
    else:
        value = float(f"{value:.2g}")
    value = min(max(value, low), high)
    return parameter.show(round(value) if parameter.vartype == "integer" else value)


def _valid(parameter: Parameter, text: str) -> bool:
    try:
        parameter.parse(text)
    except BadValue:
        return False
    return True
