"""The tuner page gives what the command gives, byte for byte: in the browser and served."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from served import PATIENCE, Viewer, in_a_browser, violations

from command_line import run
from mrtuner.errors import BadValue
from mrtuner.inputs import MACHINE, Switch, Workload
from mrtuner.web.tuner import answer, form

ROOT = Path(__file__).parents[4]


def shapes(number: int) -> list[dict[str, str]]:
    """Return so many machines, the same ones each time; every input is given for some of them."""
    draw = random.Random(26)
    return [
        {
            "memory": draw.choice(["512MB", "1GB", "3.5GB", "16GB", "100GB", "1TB"]),
            "cpus": draw.choice(["1", "2", "4", "7", "16", "96"]),
        }
        | {name: draw.choice(words) for name, words in _OTHERS.items() if draw.random() < 0.4}
        for _ in range(number)
    ]


_OTHERS = {
    "postgres": [str(major) for major in range(13, 20)],
    "workload": [str(word) for word in Workload],
    "storage": ["hdd", "ssd", "nvme", "ebs", "network"],
    "connections": ["5", "100", "400", "20000"],
    "active": ["2", "50"],
    "disk": ["10GB", "2TB"],
    "wal_disk": ["20GB"],
    "iops": ["300", "12000"],
    "throughput": ["125MB", "1GB/s"],
    "data": ["1GB", "800GB"],
    "huge_pages": ["yes"],
    "rto": ["30s", "10min"],
    "ceiling": ["70%", "100%"],
}


def command(shape: Mapping[str, str], form: str) -> str:
    """What `mrtuner tune` writes for a machine, or its error and hint."""
    options: list[str] = []
    for name, text in shape.items():
        flag = f"--{MACHINE[name].flag or name.replace('_', '-')}"
        if isinstance(MACHINE[name], Switch):
            options.append(flag)
        else:
            options += [flag, text]
    done = run("tune", *options, "--format", form)
    return done.stdout if done.exit_code == 0 else done.stderr


def page(told: Mapping[str, Any], form: str) -> str:
    """The text that the page shows for an answer, in the form of `command`."""
    if "error" in told:
        return f"error: {told['error']['message']}\nHINT: {told['error']['hint']}\n"
    return str(told["texts"][form])


@pytest.mark.parametrize("form", ["text", "conf", "sql", "patroni", "helm"])
def test_what_the_page_is_told_is_what_the_command_writes(form: str) -> None:
    refused = 0
    for shape in shapes(30):
        told = answer(shape)
        refused += "error" in told
        assert page(told, form) == command(shape, form), shape
    assert 0 < refused < 15


def test_the_page_needs_a_machine_and_never_looks_at_its_own() -> None:
    assert answer({"memory": "16GB"})["error"]["message"] == "memory and CPUs are needed"
    assert answer({})["error"]["hint"] == "Enter both, such as 16GB and 4."
    assert "no unit" in answer({"memory": "16", "cpus": "4"})["error"]["message"]
    assert "no input" in answer({"memory": "16GB", "cpus": "4", "dsn": "x"})["error"]["message"]


def test_the_form_asks_for_every_declared_input() -> None:
    fields = form()
    # What lowers somebody's values makes sense only for a server that runs.
    assert {field["name"] for field in fields} == set(MACHINE) - {"lower"}
    (workload,) = [field for field in fields if field["name"] == "workload"]
    assert workload["words"] == ["web", "oltp", "olap", "mixed", "desktop"]
    with pytest.raises(BadValue):
        MACHINE["workload"].check("workload", "unheard-of")


def test_nothing_compiled_is_loaded_for_an_answer() -> None:
    code = """
import sys
from mrtuner.web.tuner import answer_json
answer_json('{"memory": "16GB", "cpus": "4"}')
files = {name.split(".")[0]: getattr(m, "__file__", None) or "" for name, m in sys.modules.items()}
print(*(name for name, file in files.items() if "site-packages" in file))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # PyYAML works without its part in C.
    assert set(done.stdout.split()) - {"_distutils_hack"} <= {"yaml"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The static site, on a plain file server."""
    place = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, ROOT / "tools" / "build_site.py", place], check=True)
    handler = partial(_Quiet, directory=str(place))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def opened(browser: Any, site: str) -> Iterator[Any]:
    """The page of the static site, with Python loaded; it must not complain."""
    tab = browser.new_page()
    tab.set_default_timeout(PATIENCE)
    complaints: list[str] = []
    tab.on("console", lambda said: complaints.append(said.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(site)
    tab.wait_for_selector(".answer[data-of]")
    yield tab
    assert complaints == []
    tab.close()


def asked(tab: Any, shape: Mapping[str, str], written: str) -> str:
    """What the page shows for a machine that its address names."""
    names = [field["name"] for field in form()]
    link = urlencode({name: shape[name] for name in names if name in shape})
    tab.evaluate("link => { location.hash = link }", link)
    tab.wait_for_selector(f".answer[data-of='{link}']")
    if tab.locator("[role=alert]").count():
        message, hint = tab.locator("[role=alert] p").all_inner_texts()
        return f"error: {message}\nHINT: {hint}\n"
    tab.select_option("[aria-label=Format]", written)
    return str(tab.text_content("pre"))


@in_a_browser
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "number", [10, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_the_browser_gives_what_the_command_gives(opened: Any, number: int) -> None:
    for place, shape in enumerate(shapes(number)):
        form = ("conf", "text", "sql", "cloudnativepg")[place % 4]
        assert asked(opened, shape, form) == command(shape, form), shape


@in_a_browser
@pytest.mark.timeout(600)
def test_it_works_without_a_network_once_it_was_loaded(opened: Any, site: str) -> None:
    opened.evaluate("navigator.serviceWorker.ready.then(() => true)")
    opened.context.set_offline(True)
    try:
        opened.goto(f"{site}#memory=8GB&cpus=2")
        opened.reload()
        opened.wait_for_selector(".answer[data-of]")
        shape = {"memory": "8GB", "cpus": "2"}
        assert asked(opened, shape, "conf") == command(shape, "conf")
    finally:
        opened.context.set_offline(False)


@in_a_browser
def test_the_form_is_usable_and_its_link_reproduces_it(opened: Any, site: str) -> None:
    opened.goto(f"{site}#memory=8GB&cpus=2&postgres=17")
    opened.wait_for_selector(".answer[data-of*='8GB']")
    assert opened.input_value("input[name=memory]") == "8"
    assert opened.input_value("[aria-label='Unit of memory']") == "GB"
    opened.fill("input[name=memory]", "32GB")
    opened.wait_for_selector(".answer[data-of*='32GB']")
    assert "memory=32GB" in opened.url
    assert "8GB" in opened.inner_text("tr:has-text('shared_buffers')")
    theirs = opened.locator("section.table:has(h2:has-text('Where PgTune'))")
    # (32 - 8) GB by 3 × (100 + 8) are 77,672.3 kB, halved for mixed, the form's default.
    assert "38836kB" in theirs.locator("tr:has(td:text-is('work_mem'))").inner_text()
    assert violations(opened) == []


@in_a_browser
def test_mrtuner_serve_shows_the_same_page_and_answers_itself(browser: Any, viewer: Viewer) -> None:
    shape = {"memory": "8GB", "cpus": "2", "postgres": "17"}
    tab = browser.new_page()
    tab.set_default_timeout(PATIENCE)
    requests: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(f"{viewer.address}tuner.html")
    tab.wait_for_selector(".answer[data-of]")
    assert asked(tab, shape, "conf") == command(shape, "conf")
    assert not any("pyodide" in url for url in requests)
    tab.close()


@in_a_browser
def test_a_bare_size_takes_the_unit_beside_it_and_a_comma_is_named(
    browser: Any, viewer: Viewer
) -> None:
    """16 with MB is what 16MB is; the link has the unit; and 16,5GB says what is wrong."""
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{viewer.address}tuner.html#memory=16GB&cpus=4")
    page.wait_for_selector(".answer[data-of='memory=16GB&cpus=4']")
    assert page.input_value("input[name=memory]") == "16"
    page.select_option("[aria-label='Unit of memory']", "TB")
    page.wait_for_selector(".answer[data-of='memory=16TB&cpus=4']")
    assert page.url.endswith("#memory=16TB&cpus=4")
    page.fill("input[name=memory]", "16,5GB")
    page.wait_for_selector(".answer [role=alert]")
    assert page.inner_text(".answer [role=alert]").split("\n") == [
        "memory: cannot read '16,5GB' as a size: it has a comma",
        "",
        "Write a point: 16.5GB.",
    ]
    page.context.close()
