"""What `mrtuner deploy lambda` writes runs on Lambda's emulator, and CloudFormation takes it."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from cloudfront import distribution
from fetch_lambda import fetch
from fetch_servers import CannotFetch
from lake import BUCKET, PLACE, URL, StandIn, stand_in
from lambda_emulator import (
    ARCHITECTURE,
    PYTHON,
    Function,
    authorization,
    body_of,
    function,
    login,
    request,
)
from served import HOUR, PATIENCE, in_a_browser

import command_line
from machine import PAGE, needs
from mrtuner.aws.iam_policy import Scope, policy
from mrtuner.web.app import HEADERS
from mrtuner.web.authentication import hash_of
from mrtuner.web.screens import SCREENS
from mrtuner.web.serverless.deployment import (
    LARGEST,
    Deployment,
    platforms,
    requirements,
    size_of,
    template,
    write,
)

WAL = "/api/screens/wal"
PASSWORD = "correct-horse-battery"
KEY = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
pytestmark = needs(PAGE)


def deployment(**more: Any) -> Deployment:
    given: dict[str, Any] = {"place": PLACE, "password_hash": "$argon2id$v=19$…", "python": "3.13",
             "architecture": "arm64"}  # fmt: skip
    return Deployment(**(given | more))


# The functions.


@dataclass(frozen=True)
class Stack:
    """The functions, and the history behind them."""

    viewer: Function
    authorizer: Function
    login: Function
    bucket: StandIn

    def session(self) -> tuple[str, ...]:
        """The cookies of somebody who logged in."""
        answer = self.login.invoke(login(PASSWORD))
        assert answer["statusCode"] == 303, answer
        return tuple(cookie.partition(";")[0] for cookie in answer["cookies"])

    def lets_in(self, *cookies: str) -> bool:
        """Whether the authoriser accepts a request with these cookies."""
        answer = self.authorizer.invoke(authorization("/api/fleet", cookies))
        assert answer in ({"isAuthorized": True}, {"isAuthorized": False}), answer
        return bool(answer["isAuthorized"])


@pytest.fixture(scope="module")
def fetched() -> Path:
    try:
        return fetch()
    except CannotFetch as error:
        pytest.skip(f"no emulator of Lambda: {error}")


@pytest.fixture(scope="module")
def package(fetched: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is written for this interpreter, which runs it here."""
    out = tmp_path_factory.mktemp("deployed") / "viewer"
    of = deployment(python=PYTHON, architecture=ARCHITECTURE)
    assert write(of, out) == size_of(out / "function")
    return out / "function"


@pytest.fixture(scope="module")
def password_hash() -> str:
    return hash_of(PASSWORD)


@pytest.fixture
def bucket(sealed: Path) -> Iterator[StandIn]:
    with stand_in(sealed) as found:
        yield found


@pytest.fixture
def stack(bucket: StandIn, package: Path, fetched: Path, password_hash: str) -> Iterator[Stack]:
    environment = bucket.environment | {
        "MRTUNER_HISTORY_DIR": URL, "MRTUNER_PASSWORD_HASH": password_hash
    }  # fmt: skip
    handlers = {name: one["Properties"]["Handler"] for name, one in functions().items()}
    with (
        function(package, handlers["Viewer"], environment, fetched) as viewer,
        function(package, handlers["Authorizer"], environment, fetched) as authorizer,
        function(package, handlers["Login"], environment, fetched) as entrance,
    ):
        yield Stack(viewer, authorizer, entrance, bucket)


def test_who_logs_in_sees_every_screen_and_nobody_else_anything(stack: Stack) -> None:
    assert not stack.lets_in()
    cookies = stack.session()
    assert stack.lets_in(*cookies)
    assert stack.lets_in("theme=dark", *cookies)
    fleet = stack.viewer.invoke(request("/api/fleet", cookies=cookies))
    assert fleet["statusCode"] == 200
    told = json.loads(body_of(fleet))
    assert told["directory"] == URL
    assert [one["instance"] for one in told["instances"]] == ["db:5432"]
    for name in SCREENS:
        answer = stack.viewer.invoke(request(f"/api/screens/{name}", HOUR, cookies=cookies))
        assert answer["statusCode"] == 200, answer
        assert answer["headers"]["content-type"] == "application/json"
        assert json.loads(body_of(answer))["screen"] == name
    advice = stack.viewer.invoke(request("/api/tune", "instance=db:5432", cookies=cookies))
    assert advice["statusCode"] == 200, advice
    assert json.loads(body_of(advice))["instance"] == "db:5432"
    # 1 MB of WAL a second, from 02:30 to 02:40 it is 16 MB: see history_story.
    wal = json.loads(body_of(stack.viewer.invoke(request(WAL, HOUR, cookies=cookies))))
    written = next(one for one in wal["charts"] if one["unit"] == "bytes/s")["series"][0]["values"]
    assert written[_step(wal, 2, 10)] == pytest.approx(1_000_000, rel=0.01)
    assert written[_step(wal, 2, 35)] == pytest.approx(16_000_000, rel=0.01)
    tuned = stack.viewer.invoke(request("/api/tune", "memory=16GB&cpus=4", cookies=cookies))
    assert "shared_buffers" in json.loads(body_of(tuned))["texts"]["conf"]
    # The function checks the session itself, too, in case the authoriser is ever left out.
    closed = stack.viewer.invoke(request("/api/fleet"))
    assert closed["statusCode"] == 401
    assert "db:5432" not in json.dumps(closed)


def _step(screen: Any, hour: int, minute: int) -> int:
    """The step of a screen that holds this minute of 2026-11-23."""
    at = datetime(2026, 11, 23, hour, minute, 30, tzinfo=UTC).timestamp()
    return int((at - screen["times"][0]) // screen["step"])


def test_a_session_cannot_be_made_up(stack: Stack) -> None:
    (cookie,) = stack.session()
    name, _, token = cookie.partition("=")
    end, _, signature = token.partition(".")
    later = str(int(end) + 1)
    for made_up in (
        "", ".", end, f"{end}.", f".{signature}", f"{later}.{signature}", f"{end}.{signature}x",
        f"{end}.{signature[:-1]}", f"{end}0.{signature}", f"-{end}.{signature}", "²." + signature,
        f"{end}.{signature.swapcase()}", "9" * 5000 + f".{signature}", "x" * 5000, "é.ü",
    ):  # fmt: skip
        assert not stack.lets_in(f"{name}={made_up}"), made_up
    assert not stack.lets_in(f"other={token}")
    assert stack.lets_in(cookie)


def test_a_wrong_password_or_another_sites_form_begins_no_session(stack: Stack) -> None:
    for wrong in ("", "wrong", PASSWORD + " "):
        answer = stack.login.invoke(login(wrong))
        assert (answer["statusCode"], answer.get("cookies")) == (403, None)
    foreign = {"origin": "https://elsewhere.example", "sec-fetch-site": "cross-site"}
    answer = stack.login.invoke(login(PASSWORD, **foreign))
    assert (answer["statusCode"], answer.get("cookies")) == (403, None)
    assert "another site" in body_of(answer).decode()
    # Behind CloudFront, Host is the API's name and Origin the page's.
    own = {"origin": "https://d111111abcdef8.cloudfront.net", "sec-fetch-site": "same-origin"}
    assert stack.login.invoke(login(PASSWORD, **own))["statusCode"] == 303


@in_a_browser
def test_in_the_browser_a_link_leads_through_the_login_to_its_view(
    stack: Stack, package: Path, browser: Any
) -> None:
    """The tuner page works, too; and without the session, the link leads to the login again."""
    view = "#screen=wal&from=1795399200&to=1795402800"
    parts = {"Viewer": stack.viewer, "Authorizer": stack.authorizer, "Login": stack.login}
    with distribution(resources(), package.parent / "site", parts) as root:
        page = browser.new_context().new_page()
        page.set_default_timeout(PATIENCE)
        broken: list[str] = []
        page.on("pageerror", lambda error: broken.append(str(error)))
        page.goto(root + view)
        page.fill("input[name=password]", "not the password")
        page.click("button")
        page.wait_for_selector("[role=alert]")
        page.fill("input[name=password]", PASSWORD)
        page.click("button")
        page.wait_for_selector("main h1:has-text('Checkpoints and WAL')")
        page.wait_for_selector("main canvas")
        assert page.url.startswith(f"{root}#screen=wal&instance=")
        assert page.url.endswith("&from=1795399200&to=1795402800")
        page.goto(f"{root}tuner.html#memory=16GB&cpus=4")
        page.wait_for_selector(".answer[data-of*='16GB']")
        assert "shared_buffers" in page.inner_text(".answer")
        page.context.clear_cookies()
        page.goto("about:blank")
        page.goto(root + view)
        page.wait_for_selector("input[name=password]")
        assert page.url == f"{root}login{view}"
        assert broken == []
        page.context.close()


def test_errors_of_s3_are_answers(stack: Stack) -> None:
    cookies = stack.session()
    stack.bucket.empty()
    answer = stack.viewer.invoke(request("/api/fleet", cookies=cookies))
    assert answer["statusCode"] == 502
    assert json.loads(body_of(answer))["error"]["message"] == "there is no such bucket"


def test_the_package_has_no_other_way_to_what_it_needs(package: Path) -> None:
    assert 50_000_000 < size_of(package) < LARGEST == 262_144_000
    assert not list(package.rglob("static"))
    assert not (package / "boto3").exists()
    assert not (package / "bin").exists()


# The template.


def functions(of: Deployment | None = None) -> dict[str, Any]:
    return {
        name: one for name, one in resources(of).items()
        if one["Type"] == "AWS::Serverless::Function"
    }  # fmt: skip


def resources(of: Deployment | None = None) -> dict[str, Any]:
    class Loader(yaml.SafeLoader):
        """Loads the short forms of intrinsic functions as their arguments."""

    def plain(loader: yaml.SafeLoader, _suffix: str, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return loader.construct_scalar(node)
        assert isinstance(node, yaml.SequenceNode)
        return loader.construct_sequence(node, deep=True)

    Loader.add_multi_constructor("!", plain)
    return dict(yaml.load(template(of or deployment()), Loader)["Resources"])


@pytest.mark.parametrize("python", ["3.12", "3.13", "3.14"])
@pytest.mark.parametrize("architecture", ["arm64", "x86_64"])
def test_the_template_is_one_that_cloudformation_takes(python: str, architecture: str) -> None:
    from cfnlint import api

    text = template(deployment(python=python, architecture=architecture, kms_key=KEY))
    found = api.lint(text, regions=["eu-central-1", "us-east-1"])
    assert [f"{one.rule.id} {one.message}" for one in found] == []


def test_cfn_lint_would_find_a_mistake() -> None:
    from cfnlint import api

    text = template(deployment()).replace("MemorySize: 256", "MemorySize: 99999")
    assert api.lint(text, regions=["eu-central-1"]) != []


@pytest.mark.parametrize("key", [None, KEY])
def test_the_function_may_do_what_the_policy_of_the_command_allows(key: str | None) -> None:
    scope = Scope(bucket=BUCKET, prefix="postgres/", kms_key=key)
    expected = policy("serve", scope, () if key else ("--kms-key",)).document
    parts = functions(deployment(kms_key=key))
    assert parts["Viewer"]["Properties"]["Policies"] == [expected]
    assert "Policies" not in parts["Authorizer"]["Properties"] | parts["Login"]["Properties"]
    assert ("kms:Decrypt" in json.dumps(expected)) == (key is not None)


def test_only_the_login_needs_no_session() -> None:
    parts = resources()
    auth = parts["Api"]["Properties"]["Auth"]
    assert auth["DefaultAuthorizer"] == "Session"
    assert auth["Authorizers"]["Session"]["FunctionArn"] == "Authorizer.Arn"
    for name, paths in {
        "Login": {("GET", "/login"), ("POST", "/login"), ("POST", "/logout")},
        "Viewer": {("GET", "/api/{proxy+}")},
    }.items():
        routes = [one["Properties"] for one in parts[name]["Properties"]["Events"].values()]
        assert {(one["Method"], one["Path"]) for one in routes} == paths
        assert {one["Auth"]["Authorizer"] for one in routes if "Auth" in one} == (
            {"NONE"} if name == "Login" else set()
        )
    assert "Events" not in parts["Authorizer"]["Properties"]


def test_the_login_loads_neither_the_viewer_nor_what_reads_a_history() -> None:
    """Imported in a fresh interpreter, with the environment of the function."""
    code = (
        "import os, sys\n"
        "from mrtuner.web.serverless.login import login\n"
        "login({'MRTUNER_PASSWORD_HASH': '$argon2id$x'})\n"
        "print(*sorted({'duckdb', 'boto3', 'mrtuner.web.app', 'mrtuner.history'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_one_client_cannot_lock_the_others_out_of_the_login(stack: Stack) -> None:
    """CloudFront adds the browser's address, and the HTTP API adds CloudFront's."""

    def tried(client: str, password: str) -> int:
        given = {"x-forwarded-for": f"{client}, 192.0.2.1"}
        return int(stack.login.invoke(login(password, **given))["statusCode"])

    assert [tried("203.0.113.9", "wrong") for _ in range(6)] == [403] * 5 + [429]
    assert tried("198.51.100.4", PASSWORD) == 303


def test_the_site_is_private_and_the_page_has_the_headers_of_the_server() -> None:
    parts = resources()
    assert set(parts["Site"]["Properties"]["PublicAccessBlockConfiguration"].values()) == {True}
    allowed, denied = parts["SitePolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert allowed["Principal"] == {"Service": "cloudfront.amazonaws.com"}
    assert allowed["Condition"]["StringEquals"]["AWS:SourceArn"].endswith("/${Distribution}")
    assert denied["Effect"] == "Deny"
    given = parts["Headers"]["Properties"]["ResponseHeadersPolicyConfig"]
    security = given["SecurityHeadersConfig"]
    assert (
        security["ContentSecurityPolicy"]["ContentSecurityPolicy"]
        == (HEADERS["Content-Security-Policy"])
    )
    assert security["FrameOptions"]["FrameOption"] == HEADERS["X-Frame-Options"]
    assert security["ReferrerPolicy"]["ReferrerPolicy"] == HEADERS["Referrer-Policy"]
    custom = {one["Header"]: one["Value"] for one in given["CustomHeadersConfig"]["Items"]}
    assert {"Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options",
            "Referrer-Policy", *custom} == set(HEADERS)  # fmt: skip


def test_cloudfront_leads_each_path_to_what_answers_it() -> None:
    config = resources()["Distribution"]["Properties"]["DistributionConfig"]
    assert config["DefaultCacheBehavior"]["TargetOriginId"] == "site"
    targets = {one["PathPattern"]: one["TargetOriginId"] for one in config["CacheBehaviors"]}
    assert targets == {"/assets/*": "site", "/api/*": "api", "/login": "api", "/logout": "api"}
    assert all(
        one["ViewerProtocolPolicy"] in {"https-only", "redirect-to-https"}
        for one in [config["DefaultCacheBehavior"], *config["CacheBehaviors"]]
    )


# The command.


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\n", encoding="utf-8")
    return path


run = partial(command_line.run, "deploy", "lambda")


def test_the_command_writes_what_is_to_be_deployed_and_again(secret: Path, tmp_path: Path) -> None:
    out = tmp_path / "viewer"
    words = ("--dir", URL, "--password-file", secret, "--out", out)
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert {one.name for one in out.iterdir()} == {
        "README.md", "function", "parameters.json", "site", "template.yaml"
    }  # fmt: skip
    (compiled,) = (out / "function").glob("_cffi_backend*.so")
    assert compiled.name == "_cffi_backend.cpython-313-aarch64-linux-gnu.so"
    assert size_of(out / "function") < LARGEST
    (given,) = json.loads((out / "parameters.json").read_text(encoding="utf-8"))
    assert given["ParameterKey"] == "PasswordHash"
    assert re.match(r"\$argon2id\$.+", given["ParameterValue"])
    assert stat.S_IMODE((out / "parameters.json").stat().st_mode) == 0o600
    for path in out.rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path
    assert 'content="server"' in (out / "site" / "tuner.html").read_text(encoding="utf-8")
    assert "@" not in re.sub(r"@media|@font", "", (out / "template.yaml").read_text("utf-8"))
    (out / "site" / "old.js").write_text("", encoding="utf-8")
    again = run(*words, "--json", "--arch", "x86_64", "--python", "3.12")
    assert again.exit_code == 0, again.output
    told = json.loads(again.stdout)
    assert (told["architecture"], told["python"], told["history"]) == ("x86_64", "3.12", URL)
    assert told["bytes"] == size_of(out / "function")
    assert not (out / "site" / "old.js").exists()
    assert next((out / "function").glob("_cffi_backend*")).name.endswith("312-x86_64-linux-gnu.so")


def test_a_directory_with_something_else_is_left_alone(secret: Path, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("mine", encoding="utf-8")
    done = run("--dir", URL, "--password-file", secret, "--out", tmp_path)
    assert done.exit_code == 4
    assert "holds something else" in done.stderr
    assert {one.name for one in tmp_path.iterdir()} == {"notes.txt", "password"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dir", "/var/lib/mrtuner"), "is not an S3 address"),
        (("--dir", "s3://company-history/a*"), "is not a valid prefix"),
        (("--dir", URL, "--kms-key", "alias/history"), "--kms-key is not an ARN"),
    ],
)
def test_what_cannot_be_deployed_is_refused(
    words: tuple[str, ...], said: str, secret: Path, tmp_path: Path
) -> None:
    done = run(*words, "--password-file", secret, "--out", tmp_path / "viewer")
    assert done.exit_code == 2
    assert said in done.stderr
    assert not (tmp_path / "viewer").exists()


def test_a_short_password_is_refused(tmp_path: Path) -> None:
    short = tmp_path / "password"
    short.write_text("short\n", encoding="utf-8")
    done = run("--dir", URL, "--password-file", short, "--out", tmp_path / "viewer")
    assert done.exit_code == 2
    assert "fewer than 12 characters" in done.stderr


def test_every_requirement_has_the_version_that_is_tested_here() -> None:
    root = Path(__file__).parents[4]
    pinned = set((root / "requirements" / "dev.txt").read_text(encoding="utf-8").splitlines())
    assert set(requirements().splitlines()) <= pinned


def test_wheels_are_those_that_amazon_linux_can_load() -> None:
    """Its C library is 2.34; wheels for older ones can be loaded as well."""
    names = platforms(deployment())
    assert names[0] == "manylinux_2_34_aarch64"
    assert {"manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"} < set(
        names
    )
