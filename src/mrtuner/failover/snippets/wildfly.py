"""WildFly's datasource subsystem over pgjdbc."""

from __future__ import annotations

from typing import Final

from mrtuner.failover.bounds import Bounds
from mrtuner.failover.snippets.pgjdbc import properties
from mrtuner.failover.snippets.stack import Stack

_PACKAGE: Final = "org.jboss.jca.adapters.jdbc.extensions.postgres"
_CHECKER: Final = f'"{_PACKAGE}.PostgreSQLValidConnectionChecker"'
_SORTER: Final = f'"{_PACKAGE}.PostgreSQLExceptionSorter"'


def write(limits: Bounds) -> str:
    """The parts of <datasource> in standalone.xml."""
    driver = "\n".join(
        f'  <connection-property name="{key}">{value}</connection-property>'
        for key, value in properties(limits).items()
    )
    return (
        '<datasource jndi-name="java:/ShopDS" pool-name="ShopDS">\n'
        f"{driver}\n"
        "  <pool><flush-strategy>EntirePool</flush-strategy></pool>\n"
        "  <validation>\n"
        "    <validate-on-match>true</validate-on-match>\n"
        f"    <valid-connection-checker class-name={_CHECKER}/>\n"
        f"    <exception-sorter class-name={_SORTER}/>\n"
        "  </validation>\n"
        "  <timeout>\n"
        f"    <blocking-timeout-millis>{limits.pool_wait * 1000}</blocking-timeout-millis>\n"
        "    <allocation-retry>1</allocation-retry>\n"
        "    <allocation-retry-wait-millis>500</allocation-retry-wait-millis>\n"
        "  </timeout>\n"
        "</datasource>\n"
    )


STACK = Stack(
    name="wildfly", title="WildFly", file="standalone.xml", write=write,
    sets_socket=False, read_timeout=True, read_write=True,
)  # fmt: skip
