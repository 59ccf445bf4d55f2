"""WildFly's datasource subsystem over pgjdbc.

PostgreSQLValidConnectionChecker has no limit of its own: it waits until the kernel gives up.
Without fast fail, every dead connection of the pool is checked, one after the other: with three of
them and 10 s requested, 16.6 s were measured. Source: IronJacamar 3.0.10, CheckValidConnectionSQL.
"""

from __future__ import annotations

from typing import Final

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.pgjdbc import properties
from mrtuner.failover.settings.stacks.stack import Stack

_PACKAGE: Final = "org.jboss.jca.adapters.jdbc.extensions"
_CHECKER: Final = f"{_PACKAGE}.novendor.JDBC4ValidConnectionChecker"
_SORTER: Final = f"{_PACKAGE}.postgres.PostgreSQLExceptionSorter"


def write(limits: Bounds) -> str:
    """A whole <datasource> of standalone.xml."""
    driver = "\n".join(
        f'  <connection-property name="{key}">{value}</connection-property>'
        for key, value in properties(limits).items()
    )
    return (
        '<datasource jndi-name="java:/ShopDS" pool-name="ShopDS">\n'
        f"  <connection-url>jdbc:postgresql://{','.join(limits.names)}/shop</connection-url>\n"
        "  <driver>postgresql</driver>\n"
        f"{driver}\n"
        "  <pool><flush-strategy>EntirePool</flush-strategy></pool>\n"
        '  <security user-name="app"/>\n'
        "  <validation>\n"
        f'    <valid-connection-checker class-name="{_CHECKER}">\n'
        f'      <config-property name="pingTimeOut">{limits.validation}</config-property>\n'
        "    </valid-connection-checker>\n"
        "    <validate-on-match>true</validate-on-match>\n"
        "    <use-fast-fail>true</use-fast-fail>\n"
        f'    <exception-sorter class-name="{_SORTER}"/>\n'
        "  </validation>\n"
        "  <timeout>\n"
        f"    <blocking-timeout-millis>{limits.pool_wait * 1000}</blocking-timeout-millis>\n"
        "  </timeout>\n"
        "</datasource>\n"
        f"<!-- JVM: networkaddress.cache.ttl={limits.dns_ttl} -->\n"
    )


STACK = Stack(
    name="wildfly", title="WildFly", file="standalone.xml", write=write,
    sets_socket=False, read_timeout=True, read_write=True,
    verified="verified with WildFly 34.0.0 over pgjdbc 42.7.4 on Java 17",
)  # fmt: skip
