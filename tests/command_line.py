"""The command `mrtuner`, run in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from mrtuner.cli import main


def run(*arguments: object) -> Result:
    """Run it with these words: texts, paths, numbers."""
    return CliRunner().invoke(main, [str(one) for one in arguments])
