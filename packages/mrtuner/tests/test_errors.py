"""Whether an error goes back to an interruption."""

from __future__ import annotations

import pytest

from mrtuner.errors import MrTunerError, interrupted


def fail(first: BaseException) -> None:
    """Raise an error, let the clean-up fail as well, and raise that failure as a MrTunerError."""
    try:
        try:
            raise first
        finally:
            raise OSError("directory not empty")
    except OSError as error:
        raise MrTunerError("cannot remove it") from error


def test_what_fails_while_cleaning_up_after_ctrl_c_is_an_interruption() -> None:
    with pytest.raises(MrTunerError) as raised:
        fail(KeyboardInterrupt())
    assert interrupted(raised.value)
    assert interrupted(KeyboardInterrupt())


def test_an_error_of_its_own_is_none() -> None:
    with pytest.raises(MrTunerError) as raised:
        fail(ValueError("no"))
    assert not interrupted(raised.value)
