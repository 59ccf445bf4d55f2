"""Grids of benchmarks: cells of workload, scale, clients and rate; variants compared in each.

    toml -> plan ─┬ cells     what is measured, in which order, for how long
                  ├ servers   a variant made a running server (instance: as small as wanted)
                  └ runner    blocks -> samples (collect: what happened meanwhile) -> archive
    archive -> verdicts       cell by cell, by the same judge as a proof's; Holm over cells

A run is one directory that can be resumed while it is unfinished, and is sealed at the end.
"""
