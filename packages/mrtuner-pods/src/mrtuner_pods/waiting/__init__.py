"""How long requests wait: a formula for a first look, a simulation for the answer.

`erlang` is the formula and says when it may not be trusted. `times` draws arrivals and service
times, `routing` sends requests to pods, `queues` simulates the queues in front of workers alone
(fast), `stages` everything behind them as well: lock, CPU quota, pool, pooler, database.
"""
