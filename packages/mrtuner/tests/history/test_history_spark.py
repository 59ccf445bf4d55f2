"""The analyses, asked of the files of a lake by a Spark cluster, answer as DuckDB does.

A master, two workers and their executors: processes of their own, on this machine. PySpark is not
among the packages of a working copy: `make test-engines` installs it and runs this.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from history_engines import (
    Question,
    differences,
    files_of,
    make_lake,
    questions,
    texts_file,
)

from machine import needs
from waiting import until

pytestmark = [
    pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(1800), needs("java")
]  # fmt: skip
HOST = "127.0.0.1"
WORKERS = 2
#: A JVM starts slowly on a busy machine.
WAIT = 180.0


@contextmanager
def daemon(log: Path, name: str, *arguments: str) -> Iterator[Path]:
    """A process of Spark's, with its executors; killed at the end. Yields its log."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m",
    }  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(
            [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
            stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=log.parent,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield log
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(WAIT)


@contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """The URL of a master that two workers have found."""
    with ExitStack() as stack:
        common = ["--host", HOST, "--webui-port", "0"]
        log = stack.enter_context(
            daemon(directory / "master.log", "master.Master", *common, "--port", "0")
        )
        started = re.compile(r"Starting Spark master at (spark://\S+)")
        url = until(lambda: started.search(log.read_text()), "a master", WAIT)[1]
        for number in range(WORKERS):
            work = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"{number}")]
            log_of_it = directory / f"worker{number}.log"
            stack.enter_context(daemon(log_of_it, "worker.Worker", *common, *work, url))
        until(lambda: log.read_text().count("Registering worker") == WORKERS, "workers", WAIT)
        yield url


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session whose executors run beside both workers."""
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not here: run make test-engines")
    directory = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_LOCAL_IP"] = HOST
    settings = {
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.port": "0",
        # Without this, all small files would go to one executor.
        "spark.sql.files.openCostInBytes": "1g",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{WAIT:.0f}s",
        "spark.cores.max": str(WORKERS),
    }
    with cluster(directory) as url:
        builder = sql.SparkSession.builder.master(url).appName("mrtuner")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        gateway = session.sparkContext._gateway
        yield session
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(WAIT)


@pytest.mark.parametrize("old", [False, True], ids=["as sampled", "summaries"])
def test_spark_answers_as_duckdb_does(spark: Any, old: bool, tmp_path: Path) -> None:
    views = make_lake(tmp_path, old=old)
    asked = questions(tmp_path, old=old)
    assert len(asked) > (80 if not old else 50)
    assert sum(1 for one in asked if one.rows) > len(asked) / 2
    paths = {view: files_of(tmp_path, view) for view in views}
    for view, path in (paths | {"statement_texts": str(texts_file(tmp_path))}).items():
        rows = spark.read.option("mergeSchema", True).parquet(path)
        # As the page tells users: quotients of decimals have few decimals.
        decimals = [name for name, kind in rows.dtypes if kind.startswith("decimal")]
        rows = rows.withColumns({name: rows[name].cast("double") for name in decimals})
        rows.createOrReplaceTempView(view)
    wrong = [(one.sql, found) for one in asked if (found := differences(run(spark, one), one.rows))]
    assert wrong == []
    assert all(count > 0 for count in tasks(spark).values())
    assert len(tasks(spark)) == WORKERS


def run(spark: Any, question: Question) -> list[tuple[Any, ...]]:
    """Return a query's rows; times pass through text, so that no local time zone is applied."""
    found = spark.sql(question.written_for("spark"))
    times = {name for name, kind in found.dtypes if kind.startswith("timestamp")}
    whole = found.select([
        found[f"`{name}`"].cast("string").alias(name) if name in times else found[f"`{name}`"]
        for name in found.columns
    ])  # fmt: skip
    return [
        tuple(_time(value) if name in times else value for name, value in row.asDict().items())
        for row in whole.collect()
    ]


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def tasks(spark: Any) -> dict[str, int]:
    """How many tasks each executor has completed, as Spark itself counts."""
    context = spark.sparkContext
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/executors"
    with urlopen(url, timeout=WAIT) as answer:
        return {
            one["id"]: one["completedTasks"] for one in json.load(answer) if one["id"] != "driver"
        }
