"""Benchmarks in blocks: cells of workload, scale, clients and rate; variants compared in each.

    plan/     what is measured, in which order, for how long
    load/     pgbench, sysbench or any command, and what they print
    server/   a variant as a running server: started directly, in a container, or by a command
    engine/   preparation (equally durable, filled alike), then block after block
    record/   what was planned, measured and rejected: written line by line, sealed at the end
    verdict/  computed from the record alone: judge, cautions, summary, what bound the load

`engine.grid` runs a plan and records it in a directory. A proof (`proof`) is a plan of one cell on
servers that already run. A series (`series`) is several loads that together answer one question.
"""
