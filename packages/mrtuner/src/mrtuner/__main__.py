"""The command line, as `python -m mrtuner`."""

from __future__ import annotations

from mrtuner.cli import main

if __name__ == "__main__":
    main(prog_name="mrtuner")
