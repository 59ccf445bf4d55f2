"""What a project or a wheel requires, installed before it is copied."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_image_advise import applied, recipe_after, rules_found

from mrtuner.image.advice.advise import advise

pytestmark = pytest.mark.usefixtures("asks")

PROJECT = """[project]
name = "app"
dependencies = ["flask>=3", "tomli; python_version < '3.11'"]
[project.optional-dependencies]
web = ["uvicorn[standard]>=0.3", "uvloop; sys_platform != 'win32'"]
other = ["never"]
"""
#: By hand, from the project above.
ALL = "'flask>=3' 'tomli; python_version < \"3.11\"' 'uvicorn[standard]>=0.3' "
EVERY = ALL + "'uvloop; sys_platform != \"win32\"'"


def a_project(root: Path, text: str, project: str = PROJECT) -> Path:
    (root / "src").mkdir(parents=True, exist_ok=True)
    (root / "src/app.py").write_text("1\n")
    (root / "pyproject.toml").write_text(project)
    (root / ".dockerignore").write_text("Dockerfile\n.dockerignore\n")
    (root / "Dockerfile").write_text(text)
    return root


def a_wheel(root: Path, text: str, requires: Sequence[str]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(root / "app-1-py3-none-any.whl", "w") as archive:
        rows = [
            "Metadata-Version: 2.4",
            "Name: App",
            *(f"Requires-Dist: {one}" for one in requires),
        ]
        archive.writestr("app-1.dist-info/METADATA", "\n".join(rows) + "\n\nText\n")
        archive.writestr("app.py", "1\n")
    (root / ".dockerignore").write_text("Dockerfile\n.dockerignore\n")
    (root / "Dockerfile").write_text(text)
    return root


def test_the_requirements_of_a_project_come_before_its_source(tmp_path: Path) -> None:
    before = "FROM python\n# all of it\nCOPY . /src\nRUN pip install --no-cache-dir '/src[web]'\n"
    assert recipe_after(a_project(tmp_path, before), "dependencies-first") == (
        f"FROM python\nRUN pip install --no-cache-dir {EVERY}\n"
        "# all of it\nCOPY . /src\nRUN pip install --no-cache-dir '/src[web]'\n"
    )
    assert "dependencies-first" not in rules_found(tmp_path)


def test_the_requirements_of_a_wheel_come_before_it(tmp_path: Path) -> None:
    text = (
        "FROM python\nCOPY app-1-py3-none-any.whl /tmp/\n"
        "RUN pip install --no-cache-dir '/tmp/app-1-py3-none-any.whl[web]' && useradd app\n"
    )
    a_wheel(tmp_path, text, ["flask>=3", "uvicorn; extra == 'web'", "never; extra == 'other'"])
    assert recipe_after(tmp_path, "dependencies-first") == text.replace(
        "FROM python\n", "FROM python\nRUN pip install --no-cache-dir 'flask>=3' uvicorn\n"
    )
    assert "dependencies-first" not in rules_found(tmp_path)


def test_what_it_saves_only_a_build_tells(tmp_path: Path) -> None:
    a_project(tmp_path, "FROM python\nCOPY . /src\nRUN pip install --no-cache-dir /src\n")
    (one,) = advise(tmp_path).advice
    assert (one.saved.pushed.more, one.saved.pushed.bytes) == (True, 0)


def test_a_requirement_that_was_added_since_is_named_too(tmp_path: Path) -> None:
    before = (
        "FROM python\nRUN pip install --no-cache-dir Flask\nCOPY . /src\n"
        "RUN pip install --no-cache-dir /src\n"
    )
    a_project(tmp_path, before)
    assert recipe_after(tmp_path, "dependencies-first") == before.replace(
        "COPY", "RUN pip install --no-cache-dir 'tomli; python_version < \"3.11\"'\nCOPY"
    )


def test_nothing_else_of_the_advice_is_lost(tmp_path: Path) -> None:
    text = (
        "FROM python\nCOPY . /src\nRUN pip install '/src[web]'\nRUN useradd app\n"
        "RUN chown -R app:app /src\n"
    )
    a_project(tmp_path, text)
    applied(tmp_path, advise(tmp_path).together.patch)
    assert (tmp_path / "Dockerfile").read_text() == (
        f"FROM python\nRUN useradd app\nRUN pip install --no-cache-dir {EVERY}\n"
        "COPY --chown=app:app . /src\nRUN pip install --no-cache-dir '/src[web]'\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "FROM python\nCOPY src /src\nRUN pip install /src\n",  # pyproject.toml is not copied
        "FROM python\nCOPY . /src\nRUN apt-get install -y gcc\nRUN pip install /src\n",
        "FROM python\nCOPY . /src\nENV PIP_INDEX_URL=x\nRUN pip install /src\n",
        "FROM python\nCOPY . /src\nRUN apt-get install -y gcc && pip install /src\n",
        "FROM python\nCOPY . /src\nRUN pip install -c /src/constraints.txt /src\n",
        "FROM python\nCOPY . /src\nRUN pip install --no-deps /src\n",
        "FROM python\nCOPY . /src\nRUN pip install /src flask\n",
        "FROM python\nCOPY . /src\nRUN pip install app\n",
        "FROM python\nCOPY . /src\nRUN pip install $WHERE/src\n",
        "FROM python\nCOPY x /x\nRUN pip install -r /x\nCOPY . /src\nRUN pip install /src\n",
        "FROM python AS one\nRUN pip install flask tomli\nFROM one\nCOPY . /src\n"
        "RUN pip install /src\n",
    ],
)
def test_silent_where_pip_may_do_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/x").write_text("flask\n")
    root = a_project(tmp_path / "app", text)
    assert "dependencies-first" not in rules_found(root)


@pytest.mark.parametrize(
    "project",
    [
        "[project]\nname = 'app'\ndynamic = ['dependencies']\n",
        "[project]\nname = 'app'\ndependencies = ['x @ file:///x']\n",
        "[project]\nname = 'app'\ndependencies = ['APP[web]']\n",
        "[project]\nname = 'app'\ndependencies = ['$(rm)']\n",
        "[project]\nname = 'app'\n",
        "[tool]\n",
        "[project",
        "project = 1\n",
    ],
)
def test_what_a_project_does_not_tell_is_not_guessed(tmp_path: Path, project: str) -> None:
    text = "FROM python\nCOPY . /src\nRUN pip install --no-cache-dir /src\n"
    assert "dependencies-first" not in rules_found(a_project(tmp_path / "app", text, project))


def test_a_damaged_wheel_tells_nothing(tmp_path: Path) -> None:
    text = "FROM python\nCOPY app-1-py3-none-any.whl /\nRUN pip install /app-1-py3-none-any.whl\n"
    a_wheel(tmp_path, text, ["flask"])
    assert "dependencies-first" in rules_found(tmp_path)
    wheel = tmp_path / "app-1-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes()[:-10])
    assert "dependencies-first" not in rules_found(tmp_path)
    wheel.write_text("no archive")
    assert "dependencies-first" not in rules_found(tmp_path)
