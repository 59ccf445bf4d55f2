"""The examples of the Python page that need no server print what their comments say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from docs_pages import DOCS, examples

PAGE = DOCS / "how-to" / "use-from-python.md"
_PRINTS = re.compile(r"^ *print\(.*\)  # (?P<said>.+)$", re.MULTILINE)


def test_the_example_of_amazon_rds_prints_what_its_comments_say(tmp_path: Path) -> None:
    """A group drawn up, applied in the lab and taken back: two blocks, one program."""
    found = examples(PAGE)
    first = next(at for at, text in enumerate(found) if "import rdstune\n" in text)
    program = "\n".join(found[first : first + 2])
    environment = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment | {"MRTUNER_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = _PRINTS.findall(program)
    assert len(said) >= 8
    assert done.stdout.splitlines() == said


def test_the_example_of_images_prints_what_its_comments_say(tmp_path: Path) -> None:
    (program,) = (text for text in examples(PAGE) if "mrtuner_image" in text)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    said = _PRINTS.findall(program)
    assert len(said) == 3
    assert done.stdout.splitlines() == said


def test_the_example_of_pods_prints_what_its_comments_say() -> None:
    (program,) = (text for text in examples(PAGE) if "mrtuner_pods" in text)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    said = _PRINTS.findall(program)
    assert len(said) == 3
    assert done.stdout.splitlines() == said
