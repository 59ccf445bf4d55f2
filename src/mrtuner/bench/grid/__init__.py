"""Benchmarks in blocks: cells of workload, scale, clients and rate; variants compared in each.

    toml -> plan ─┬ cells     what is measured, in which order, for how long
                  ├ loads     pgbench, sysbench or any command (programs: what a plan says of them)
                  ├ servers   a variant made a running server, there, in a container or by a command
                  │           (sites: its data; layers: on overlays; instance: as small as wanted)
                  ├ ground    all looked at, equally durable, filled alike
                  └ campaign  blocks -> runs (measure; collect: what happened meanwhile) -> archive
    archive -> verdicts       cell by cell, by the same judge as a proof's; Holm over cells

The runner keeps a run in a directory that can be resumed while it is unfinished, and is sealed at
the end. A proof (`mrtuner.bench.proof`) is one cell on servers that are there already.
"""
