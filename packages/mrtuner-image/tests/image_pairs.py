"""Random Dockerfiles, and a random change to each."""

from __future__ import annotations

import os
import random
import re
import shutil
from pathlib import Path

from machine import program

_FILES = [  # all but the last are copied somewhere
    "a.py",
    "b.txt",
    "src/x.py",
    "src/y.py",
    "src/deep/z",
    "etc/app.conf",
    "left/out.log",
]
_STAGES = ["one", "two", "three"]


class Pair:
    """A context that is built, changed by `change`, and built again with `arguments`."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.dice = root, random.Random(seed)
        self.arguments: dict[str, str] = {}
        for number, name in enumerate(_FILES):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{name} {number}\n")
        shutil.copy(program("busybox"), root / "busybox")
        (root / ".dockerignore").write_text("left\nDockerfile\n")
        self._write([row for stage in self._stages(seed) for row in stage])

    @property
    def rows(self) -> list[str]:
        return (self.root / "Dockerfile").read_text().splitlines()

    def _write(self, rows: list[str]) -> None:
        (self.root / "Dockerfile").write_text("\n".join(rows) + "\n")

    def _stages(self, seed: int) -> list[list[str]]:
        stages: list[list[str]] = []
        names = _STAGES[: self.dice.randint(1, 3)]
        for index, name in enumerate(names):
            inherits = index > 0 and self.dice.random() < 0.3
            base = self.dice.choice(names[:index]) if inherits else "scratch"
            rows = [f"FROM {base} AS {name}"]
            if not inherits:
                rows += [f"LABEL pair={seed}", "COPY busybox /bin/sh"]
            rows += [self._row(names[:index]) for _ in range(self.dice.randint(1, 5))]
            stages.append(rows)
        return stages

    def _row(self, earlier: list[str]) -> str:
        number = self.dice.randint(1, 3)
        rows = [
            "COPY . /all/", "COPY src /src", "COPY src/x.py /x", "COPY a.py b.txt /two/",
            "COPY --chown=5:6 src/ /owned/", "COPY --chmod=0700 etc /etc", "COPY *.py /star/",
            'COPY ["b.txt", "/listed"]', "ADD a.py /added", "COPY src/$PART /part/",
            f"RUN echo {number} > /r{number}", f"RUN echo $V{number} \\\n  # why\n > /v{number}",
            f"ARG V{number}=default", f"ARG V{number}", f"ENV E{number}=$V{number}",
            f"ENV V{number} old form", f"WORKDIR /w{number}", f"LABEL l{number}=\"$V{number}\"",
            "CMD [\"/bin/sh\"]", "USER 0", "EXPOSE 80", "STOPSIGNAL TERM", "# nothing", "",
            "ARG PART=x.py", f"RUN --mount=type=bind,source=etc,target=/m cat /m/* > /m{number}",
        ]  # fmt: skip
        if earlier:
            name = self.dice.choice(earlier)
            rows += [f"COPY --from={name} /bin/sh /from{number}"] * 4
            rows += [f"COPY --from={name} --chown=1 /bin/ /fromdir{number}/"] * 3
        return self.dice.choice(rows)

    def change(self) -> str:
        """Change something; return what."""
        kinds = [
            self._edit, self._edit, self._edit, self._touch, self._mode, self._add, self._remove,
            self._argument, self._argument, self._row_changed, self._row_changed, self._row_more,
            self._ignored, self._owner, self._rows_swapped,
        ]  # fmt: skip
        return self.dice.choice(kinds)()

    def _some(self) -> Path:
        return self.root / self.dice.choice(_FILES)

    def _edit(self) -> str:
        path = self._some()
        path.write_text("changed\n")
        return f"edited {path.name}"

    def _touch(self) -> str:
        path = self._some()
        os.utime(path, (1, 1))
        return f"touched {path.name}"

    def _mode(self) -> str:
        path = self._some()
        path.chmod(0o600)
        return f"mode of {path.name}"

    def _owner(self) -> str:
        path = self._some()
        if os.geteuid() == 0:
            os.chown(path, 1234, 1234)
        return f"owner of {path.name}"

    def _add(self) -> str:
        directory = self.dice.choice(["", "src/", "left/", "etc/"])
        (self.root / f"{directory}new.py").write_text("new")
        return f"added {directory}new.py"

    def _remove(self) -> str:
        path = self.root / self.dice.choice(["src/y.py", "src/deep/z", "left/out.log"])
        path.unlink()
        return f"removed {path.name}"

    def _argument(self) -> str:
        name = f"V{self.dice.randint(1, 3)}"
        self.arguments = {name: "given"}
        return f"--build-arg {name}"

    def _row_changed(self) -> str:
        rows = self.rows
        place = self.dice.randrange(len(rows))
        rows[place] = re.sub(r"(default|old form|echo \d|80$)", r"\g<1>1", rows[place])
        self._write(rows)
        return f"changed {rows[place]}"

    def _row_more(self) -> str:
        rows = self.rows
        self._write([*rows, self.dice.choice(["RUN echo more", "ENV MORE=1", "COPY a.py /more"])])
        return "one more line"

    def _rows_swapped(self) -> str:
        rows = self.rows
        if rows[-1].startswith(("COPY", "ENV")) and rows[-2].startswith(("COPY", "ENV")):
            rows[-2:] = reversed(rows[-2:])
        self._write(rows)
        return "last two lines swapped"

    def _ignored(self) -> str:
        with (self.root / ".dockerignore").open("a") as file:
            file.write(self.dice.choice(["src/y.py\n", "**/z\n", "nothing\n", "!left\n"]))
        return "the ignore file"
