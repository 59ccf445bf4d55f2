"""The tuner page gives the same advice for an instance of a store as the command."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from conftest import NewCluster
from history_data import MIDNIGHT, SECOND, batch, sample
from history_story import INSTANCE, of_source
from served import HOUR, PATIENCE, Viewer, in_a_browser, violations

from command_line import run
from mrtuner.aws.rows import Instance
from mrtuner.formats import NAMES
from mrtuner.history.reading import open_history
from mrtuner.history.recording.machine import rows_of_instance
from mrtuner.history.recording.sampler import Sampler
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Batch, Writer
from mrtuner.postgres.connect import connect
from mrtuner.web.recorded_advice import recorded_answer

#: Sources, of a server and of its machine, that the advice is built on.
BUILT_ON = ("settings", "sizes", "connections", "slots", "machine")


def with_server(story: Path, directory: Path, dsn: str) -> None:
    """The hour of the story, at the end of which this server and its machine were sampled."""
    shutil.copytree(story, directory, dirs_exist_ok=True)
    with connect(dsn) as connection, Writer(directory, built_in().values()) as writer:
        sampler = Sampler(connection)
        identity = sampler.prepare()
        samples = []
        for name in BUILT_ON:
            found = sampler.sample(built_in()[name])
            assert found is not None, sampler.missing
            samples.append(replace(found, at=MIDNIGHT + (3 * 3600 - 1) * SECOND))
        writer.commit([Batch(instance=INSTANCE, samples=tuple(samples), identity=identity)])


def asked(directory: Path, **given: str) -> dict[str, Any]:
    with open_history(directory) as history:
        return recorded_answer(history, {"instance": INSTANCE, **given})


def test_the_advice_is_that_of_the_command_with_the_server_and_the_history(
    new_cluster: NewCluster, recorded: Path, tmp_path: Path
) -> None:
    """Every value, its verdict and its reason; the command asks the server, the page the store."""
    dsn = new_cluster().dsn()
    with_server(recorded, tmp_path, dsn)
    # Free space on this machine's disk changes while the test runs.
    machine = {"disk": "1TB", "wal_disk": "1TB"}
    options = ["--disk", "1TB", "--wal-disk", "1TB"]
    told = json.loads(asked(tmp_path, **machine)["texts"]["json"])
    done = run("tune", dsn, "--history", tmp_path, "--instance", INSTANCE, *options, "--json")
    assert done.exit_code == 0, done.output
    command = json.loads(done.stdout)

    def advice(document: dict[str, Any]) -> dict[str, tuple[str, ...]]:
        names = ("verdict", "now", "value", "reason", "basis")
        return {one["name"]: tuple(one[name] for name in names) for one in document["advice"]}

    assert advice(told) == advice(command)
    assert told["budget"] == command["budget"]
    conf = run(
        "tune", dsn, "--history", tmp_path, "--instance", INSTANCE, *options, "--format", "conf"
    )
    assert asked(tmp_path, **machine)["texts"]["conf"] == conf.stdout
    wal = next(one for one in told["advice"] if one["name"] == "max_wal_size")
    assert wal["basis"] == "observed"


def test_it_is_given_in_every_format_of_the_command(recorded: Path) -> None:
    assert asked(recorded, memory="16GB", cpus="4")["texts"].keys() == {*NAMES, "text", "json"}


def test_what_was_not_recorded_is_unknown_and_named(recorded: Path) -> None:
    """The story has one setting and nothing of the machine."""
    told = asked(recorded)
    missing = {one["name"]: one for one in told["missing"]}
    assert {"memory", "cpus", "storage", "disk"} <= missing.keys()
    assert missing["memory"]["supply"] == "--memory"
    assert "shared_buffers" not in {one["name"] for one in told["settings"]}
    assert told["budget"] is None


def test_what_is_entered_takes_precedence(recorded: Path) -> None:
    told = asked(recorded, memory="16GB", cpus="4")
    (buffers,) = [one for one in told["settings"] if one["name"] == "shared_buffers"]
    assert buffers["value"] == "4GB"
    assert "memory" not in {one["name"] for one in told["missing"]}
    assert {"name": "memory", "value": "16 GB", "source": "--memory"} in told["known"]


def test_an_instance_of_rds_is_tuned_by_its_class(tmp_path: Path) -> None:
    """db.r5.2xlarge: 64 GiB, eight vCPUs and a volume, all known from AWS alone."""
    instance = Instance(
        identifier="shop-prod", arn="", resource_id="", class_name="db.r5.2xlarge", status="",
        engine="postgres", engine_version="15.4", groups=(), storage_type="gp3",
        allocated_storage=500,
    )  # fmt: skip
    rows = [of_source("machine", **row) for row in rows_of_instance(instance)]
    with Writer(tmp_path, built_in().values()) as writer:
        writer.commit([batch(sample(built_in()["machine"], 0, *rows), instance=INSTANCE)])
    told = asked(tmp_path)
    known = {one["name"]: one["value"] for one in told["known"]}
    assert (known["cpus"], known["storage"], known["disk"], known["pg"]) == (
        "8", "ebs", "500 GB", "15",
    )  # fmt: skip
    sources = {one["name"]: one["source"] for one in told["known"]}
    assert sources["pg"] == "rds:DescribeDBInstances"
    assert any("DB parameter group" in text for text in told["notices"])
    assert any("no setting of the server was recorded" in text for text in told["notices"])
    assert told["budget"] is not None
    assert 58 * 2**30 < told["budget"]["memory"] < 64 * 2**30


def test_a_wrong_input_is_told_and_an_unknown_instance_is_not_found(viewer: Viewer) -> None:
    status, _, body = viewer.get(f"api/tune?instance={INSTANCE}&memory=16")
    assert (status, "no unit" in json.loads(body)["error"]["message"]) == (400, True)
    status, message, hint = viewer.refused("api/tune?instance=nobody")
    assert (status, message) == (404, "the store has no instance nobody")
    assert hint == f"It has {INSTANCE}."
    assert "no input" in json.loads(viewer.get(f"api/tune?instance={INSTANCE}&dsn=x")[2])["error"][
        "message"
    ]  # fmt: skip


@in_a_browser
def test_each_screen_leads_to_the_advice_for_its_instance(browser: Any, viewer: Viewer) -> None:
    tab = browser.new_page()
    tab.set_default_timeout(PATIENCE)
    complaints: list[str] = []
    tab.on("console", lambda said: complaints.append(said.text))
    methods: set[str] = set()
    tab.on("request", lambda request: methods.add(request.method))
    tab.goto(f"{viewer.address}#screen=wal&{HOUR.replace('2026-11-23T02:00', '1795399200')}")
    tab.click("a:has-text('Tune this instance')")
    tab.wait_for_selector("h1:has-text('from its history')")
    tab.wait_for_selector(".answer[data-of='']")
    assert INSTANCE in tab.inner_text("h1")
    assert "memory" in tab.inner_text("[data-table=missing]")
    tab.fill("input[name=memory]", "16GB")
    tab.fill("input[name=cpus]", "4")
    tab.wait_for_selector(".answer[data-of*='memory=16GB'][data-of*='cpus=4']")
    assert "4GB" in tab.inner_text("tr:has-text('shared_buffers')")
    assert tab.locator(".budget").count() == 1
    tab.select_option("[aria-label=Format]", "json")
    with tab.expect_download() as saving:
        tab.click("button:has-text('Save')")
    saved = json.loads(Path(saving.value.path()).read_text(encoding="utf-8"))
    assert saved["schema"] == "mrtuner.tune/1"
    assert violations(tab) == []
    tab.click("a:has-text('History of')")
    tab.wait_for_selector("h1:has-text('Headroom')")
    assert complaints == []
    assert methods == {"GET"}
    tab.close()
