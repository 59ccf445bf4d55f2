"""Documents are read back or refused by name and version, and every kind has its schema."""

from __future__ import annotations

import json
from dataclasses import dataclass, is_dataclass
from typing import Annotated

import msgspec
import pytest

import mrtuner
from mrtuner import documents
from mrtuner.described import Omissible, document_name
from mrtuner.documents import Doc, Struct, convert, field
from mrtuner.errors import BadValue
from mrtuner.tuning.document import TuneDocument, tune_document


class Part(Struct):
    """A part."""

    size: Annotated[int, Doc("bytes")] = field(name="bytes")


# Not a subclass with a tag of ours: `kinds` must not list what a test declares.
class Whole(Struct, tag="test.whole/2", tag_field="schema"):
    """A document of two fields."""

    parts: list[Part]
    new: str = "later"


@dataclass(frozen=True)
class Measured:
    size: int


@dataclass(frozen=True)
class Source:
    parts: tuple[Measured, ...]
    new: str


def test_a_document_takes_the_attributes_of_what_it_is_made_from() -> None:
    made = convert(Source(parts=(Measured(3),), new="x"), Whole)
    assert documents.as_builtins(made) == {
        "schema": "test.whole/2", "parts": [{"bytes": 3}], "new": "x",
    }  # fmt: skip


def test_what_was_written_is_read_back() -> None:
    written = tune_document(mrtuner.tune(memory="16GB", cpus=4))
    text = json.dumps(documents.as_builtins(written))
    assert documents.read(text, TuneDocument) == written


def test_data_that_was_parsed_already_is_read_like_its_text() -> None:
    written = tune_document(mrtuner.tune(memory="16GB", cpus=4))
    assert documents.read(documents.as_builtins(written), TuneDocument) == written
    with pytest.raises(BadValue, match="not one of MrTuner"):
        documents.read({}, TuneDocument)


def test_a_part_makes_a_dataclass() -> None:
    assert convert(Part(size=3), Measured) == Measured(size=3)


def tuned(**changes: object) -> str:
    return json.dumps(mrtuner.tune(memory="1GB", cpus=1).to_dict() | changes)


def test_fields_of_a_later_version_are_ignored() -> None:
    assert documents.read(tuned(weather="fine"), TuneDocument).postgres == 18


def test_another_version_is_refused_by_name() -> None:
    with pytest.raises(BadValue) as refused:
        documents.read(tuned(schema="mrtuner.tune/9"), TuneDocument)
    assert "mrtuner.tune/9" in str(refused.value)
    assert "mrtuner.tune/1" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a JSON document"),
        ("{", "not a JSON document"),
        ("[" * 100_000, "not a JSON document"),
        ("[]", "not one of MrTuner"),
        ('{"schema": 3}', "not one of MrTuner"),
        ('{"schema": "mrtuner.vacuum/1"}', "mrtuner.vacuum/1"),
        ('{"schema": "mrtuner.tune/1"}', "missing required field"),
        (tuned(postgres="eighteen"), "postgres"),
    ],
)
def test_what_is_no_such_document_is_refused(text: str, words: str) -> None:
    with pytest.raises(BadValue, match=words):
        documents.read(text, TuneDocument)


def test_every_kind_is_found_once_and_has_a_schema() -> None:
    tags = [documents.tag(kind) for kind in documents.kinds("mrtuner", "rdstune")]
    assert "mrtuner.tune/1" in tags
    assert len(set(tags)) == len(tags)


@document_name("WrittenRecord")
@dataclass(frozen=True, slots=True)
class Record:
    """A record."""

    size: Annotated[int, Doc("bytes")] = 8192
    notes: Annotated[tuple[str, ...], Omissible("what is worth knowing")] = ()


class Holder(Struct):
    """A document of one record."""

    record: Annotated[Record, Doc("it")]


def test_a_record_has_its_name_in_documents_and_may_lack_only_what_is_omissible() -> None:
    made = documents.schema(Holder)["$defs"]
    assert made["Holder"]["properties"]["record"]["$ref"] == "#/$defs/WrittenRecord"
    record = made["WrittenRecord"]
    assert record["title"] == "WrittenRecord"
    assert record["required"] == ["size"]
    assert "default" not in record["properties"]["size"]
    assert record["properties"]["notes"]["default"] == []


def test_records_have_slots_or_fields_left_at_their_defaults_would_not_be_written() -> None:
    """msgspec writes what an instance of a class without slots holds itself."""
    kinds = documents.kinds("mrtuner", "rdstune", "mrtuner_pods", "mrtuner_image")
    records = {
        record
        for kind in kinds
        for record in documents._records(msgspec.inspect.type_info(kind)).values()
        if is_dataclass(record)
    }
    assert len(records) > 50
    assert not [record.__name__ for record in records if "__slots__" not in vars(record)]
