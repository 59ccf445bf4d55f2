"""One configuration parameter of one major version."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mrtuner import notation
from mrtuner.errors import BadValue
from mrtuner.units import Bytes, memory_unit

#: A parameter's value; integers and reals are in its base unit.
Value = int | float | bool | str

#: Shown in octal, as file modes.
_MODES = frozenset({"data_directory_mode", "log_file_mode", "unix_socket_permissions"})

#: Integers within the bounds that a check hook still refuses: from, to.
#: Source: vacuum.c, check_vacuum_buffer_usage_limit; aio.c, check_io_max_concurrency.
_REFUSED = {"vacuum_buffer_usage_limit": (1, 127), "io_max_concurrency": (0, 0)}
#: Only multiples of 16 are valid. Source: slru.c, check_slru_buffers.
_BANKED = frozenset({
    "commit_timestamp_buffers", "multixact_member_buffers", "multixact_offset_buffers",
    "notify_buffers", "serializable_buffers", "subtransaction_buffers", "transaction_buffers",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter as one major version defines it.

    `min`, `max` and an integer or real `default` are in `unit`. A default of None means that the
    server or initdb determines it, or that it depends on how the server was built.
    """

    name: str
    vartype: str  # bool, integer, real, enum, string, as pg_settings.vartype
    unit: str | None  # 8kB, kB, MB, B, ms, s, min, as pg_settings.unit
    min: int | float | None
    max: int | float | None
    enum: tuple[str, ...]  # every value of this version, whatever the build
    build: tuple[str, ...] = ()  # those of `enum` that some builds or platforms lack
    context: str  # internal, postmaster, sighup, superuser, user, …
    default: Value | None
    summary: str  # our own one-line summary for parameters that rules change, else ""
    major: int
    certainty: str  # "server": read from a running server; "source": from documentation and source

    @property
    def restart(self) -> bool:
        """Whether a change needs a restart of the server."""
        return self.context == "postmaster"

    def parse(self, text: str) -> Value:
        """Parse configuration text as this server would, with rounding; BadValue if invalid."""
        try:
            value = self._read(text)
        except notation.Unreadable as reason:
            raise BadValue(
                f"invalid value for {self.name}: {text!r}",
                f"{self._expected()} {reason}",
            ) from None
        self.check(value)
        return value

    def show(self, value: Value) -> str:
        """Return the shortest exact text, unquoted: ``4GB``, ``2min``, ``on``, ``0.9``.

        ``parse(show(value)) == value`` for every value that `check` accepts.
        """
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "on" if value else "off"
        if self.vartype == "real":
            return notation.write_real(value, self.unit)
        if self.name in _MODES:
            return f"{int(value):04o}"
        return notation.write_integer(int(value), self.unit)

    def check(self, value: Value) -> None:
        """Raise BadValue for a value of the wrong type, out of bounds or not in the list."""
        match self.vartype:
            case "integer" | "real":
                self._check_number(value)
            case "bool" if not isinstance(value, bool):
                raise self._refused(value, "Write on or off.")
            case "enum" if value not in self.enum:
                raise self._refused(value, f"Use one of {', '.join(self.enum)}.")
            case "string" if not isinstance(value, str):
                raise self._refused(value, "Give a string.")

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest value; infinite without a bound."""
        low = -math.inf if self.min is None else self.min
        return low, math.inf if self.max is None else self.max

    def size(self, value: Value) -> Bytes | None:
        """Return the value in bytes; None for a unit other than memory or a special value (-1)."""
        factor = memory_unit(self.unit) if self.unit else None
        if factor is None or isinstance(value, str) or value < 0:
            return None
        return Bytes(int(value) * factor)

    def _read(self, text: str) -> Value:
        if self.vartype == "enum":
            return notation.read_word(text, self.enum)
        return notation.read(text, self.vartype, self.unit)

    def _check_number(self, value: Value) -> None:
        whole = self.vartype == "integer"
        if isinstance(value, (bool, str)) or (whole and isinstance(value, float)):
            raise self._refused(value, self._expected())
        self._check_bounds(value)
        self._check_hooks(value)

    def _check_bounds(self, value: int | float) -> None:
        low, high = self.bounds
        if not low <= value <= high:  # NaN fails both
            raise BadValue(
                f"{self.name} = {self.show(value)} is outside {self._range()}",
                f"PostgreSQL {self.major} takes {self._range()}.",
            )

    def _check_hooks(self, value: int | float) -> None:
        low, high = _REFUSED.get(self.name, (0, -1))
        if low <= value <= high:
            below, above = self.show(low - 1), self.show(high + 1)
            raise self._refused(value, f"Use {below}, or at least {above}.")
        if self.name in _BANKED and value % 16:
            raise self._refused(value, "Use a multiple of 16 pages: 128kB, 256kB, …")

    def _refused(self, value: Value, hint: str) -> BadValue:
        return BadValue(f"invalid value for {self.name}: {value!r}", hint)

    def _expected(self) -> str:
        match self.vartype:
            case "bool":
                return f"{self.name} is on or off."
            case "enum":
                return f"{self.name} takes one value from a list."
            case "integer" | "real":
                kind = "a whole number" if self.vartype == "integer" else "a number"
                return f"{self.name} is {kind}{self._counted()}, {self._range()}."
            case _:
                return f"{self.name} is a string."

    def _counted(self) -> str:
        return f" counted in {self.unit}" if self.unit else ""

    def _range(self) -> str:
        low, high = (
            self.show(edge) if edge is not None else "any" for edge in (self.min, self.max)
        )
        return f"{low} to {high}"
