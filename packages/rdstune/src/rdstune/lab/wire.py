"""The Query protocol of RDS: form fields in, XML out, both following botocore's model.

moto parses requests and writes answers from the model; only refusals are written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from rdstune.lab.refusals import Fault

_NAMESPACE: Final = "http://rds.amazonaws.com/doc/2014-10-31/"


class Protocol:
    """RDS's requests and answers in the Query protocol."""

    def parameters(self, action: str, body: bytes) -> dict[str, Any]:
        """Return the operation's input as passed to the SDK; Fault where it cannot be read."""
        from moto.core.parse import QueryParser
        from werkzeug.datastructures import MultiDict

        parser = QueryParser(self._operation(action), timestamp_parser=_moment)
        fields: Any = {"values": MultiDict(parse_qsl(body.decode(), keep_blank_values=True))}
        try:
            parsed: dict[str, Any] = parser.parse(fields)
        except ValueError as error:
            raise Fault("MalformedInput", str(error)) from None
        return parsed

    def answer(self, action: str, result: Mapping[str, Any], request: str) -> bytes:
        from moto.core.serialize import QuerySerializer, SerializationContext

        writer = QuerySerializer(self._operation(action), SerializationContext(request))
        body = writer.serialize(result)["body"]
        return body if isinstance(body, bytes) else body.encode()

    def refusal(self, fault: Fault, request: str) -> bytes:
        who = "Sender" if self.status(fault) < 500 else "Receiver"
        return (
            f'<ErrorResponse xmlns="{_NAMESPACE}"><Error><Type>{who}</Type>'
            f"<Code>{escape(fault.code)}</Code><Message>{escape(fault.message)}</Message></Error>"
            f"<RequestId>{request}</RequestId></ErrorResponse>"
        ).encode()

    def status(self, fault: Fault) -> int:
        return fault.status or self._statuses.get(fault.code, 400)

    def knows(self, action: str) -> bool:
        return action in self._model.operation_names

    @cached_property
    def _model(self) -> Any:
        import botocore.session
        from moto.core.model import ServiceModel

        loader = botocore.session.get_session().get_component("data_loader")
        return ServiceModel(loader.load_service_model("rds", "service-2"), "rds")

    @cached_property
    def _statuses(self) -> dict[str, int]:
        errors = [shape.metadata["error"] for shape in self._model.error_shapes]
        return {error["code"]: error["httpStatusCode"] for error in errors if "code" in error}

    def _operation(self, action: str) -> Any:
        if not self.knows(action):
            raise Fault("InvalidAction", f"Could not find operation {action}")
        return self._model.operation_model(action)


def _moment(text: str) -> datetime:
    from botocore.utils import parse_timestamp

    moment: datetime = parse_timestamp(text)
    return moment.astimezone(UTC)
