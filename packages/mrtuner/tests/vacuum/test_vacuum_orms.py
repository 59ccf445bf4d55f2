"""What object mappers send: do they write a value again that nobody changed?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from mrtuner.postgres.cluster import Cluster
from servers import sql

#: Each changes `n` of the one row, and nothing else, in the way that its documentation shows.
DJANGO = """
import sys
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

given = conninfo_to_dict(sys.argv[1])
settings.configure(
    INSTALLED_APPS=(),
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "HOST": given["host"],
        "PORT": given["port"], "USER": given["user"], "NAME": given["dbname"]}},
)
import django
django.setup()
from django.db import models

class Doc(models.Model):
    id = models.IntegerField(primary_key=True)
    n = models.IntegerField()
    body = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "doc"

doc = Doc.objects.get(id=1)
doc.n += 1
HOW
"""
SQLALCHEMY = """
import sys
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
import psycopg

class Base(DeclarativeBase):
    pass

class Doc(Base):
    __tablename__ = "doc"
    id: Mapped[int] = mapped_column(primary_key=True)
    n: Mapped[int]
    body: Mapped[str]

engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(sys.argv[1]))
with Session(engine) as session:
    HOW
    session.commit()
"""
LOADED = "session.get(Doc, 1).n += 1"
WHOLE = (
    "old = session.get(Doc, 1); "
    "session.bulk_update_mappings(Doc, [dict(id=1, n=old.n + 1, body=old.body)])"
)


@pytest.fixture(scope="module")
def dsn(embedded: Cluster) -> Iterator[str]:
    sql(embedded.dsn(), "CREATE DATABASE mapped")
    where = embedded.dsn("mapped")
    sql(
        where,
        "CREATE TABLE doc (id int PRIMARY KEY, n int, body text)",
        "ALTER TABLE doc ALTER body SET STORAGE EXTERNAL",
        "INSERT INTO doc VALUES (1, 0, repeat('abcdefghij', 1024))",
    )
    yield where
    sql(embedded.dsn(), "DROP DATABASE mapped WITH (FORCE)")


@pytest.mark.parametrize(
    ("program", "how", "writes_again"),
    [
        (DJANGO, "doc.save()", True),
        (DJANGO, "doc.save(update_fields=['n'])", False),
        (DJANGO, "Doc.objects.filter(id=1).update(n=models.F('n') + 1)", False),
        (SQLALCHEMY, LOADED, False),
        (SQLALCHEMY, WHOLE, True),
    ],
    ids=["django-save", "django-update-fields", "django-update", "sqlalchemy", "sqlalchemy-bulk"],
)
def test_a_mapper_writes_an_unchanged_value_again_or_not(
    dsn: str, program: str, how: str, writes_again: bool
) -> None:
    """A copied value keeps the id of its chunks; a value that is written again gets a new one."""
    state = "SELECT n, pg_column_toast_chunk_id(body)::int8 FROM doc"
    ((before, chunk),) = sql(dsn, state)
    subprocess.run([sys.executable, "-c", program.replace("HOW", how), dsn], check=True, timeout=60)
    ((after, now),) = sql(dsn, state)
    assert after == before + 1
    assert (now != chunk) is writes_again
