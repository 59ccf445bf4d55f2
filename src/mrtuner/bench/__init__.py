"""Benchmarks in blocks: cells of workload, scale, clients and rate; variants compared in each.

    plan/     what is measured, in which order, for how long
    load/     pgbench, sysbench or any command, and what they print
    server/   a variant made a running server: there, in a container, by a command
    engine/   preparation (equally durable, filled alike), then block after block
    record/   what was planned, measured and rejected: written line by line, sealed at the end
    verdict/  computed from the record alone: judge, cautions, summary, what bound the load

`engine.grid` runs a plan into a directory. A proof (`proof`) is a plan of one cell on servers
that run anyway, and a series (`series`) is several loads that answer one question together.
"""
