from __future__ import annotations

from mrtuner.bench.plan.order import blocks


def test_every_block_holds_every_variant_once() -> None:
    assert all(sorted(block) == ["a", "b", "c"] for block in blocks(["a", "b", "c"], 50, seed=1))


def test_the_same_seed_gives_the_same_order_and_another_one_another() -> None:
    order = blocks(["a", "b"], 64, seed=7)
    assert order == blocks(["a", "b"], 64, seed=7)
    assert order != blocks(["a", "b"], 64, seed=8)


def test_no_variant_always_goes_first() -> None:
    """Of 200 fair coins, fewer than 70 or more than 130 heads: once in 50,000."""
    first = [block[0] for block in blocks(["a", "b"], 200, seed=3)]
    assert 70 <= first.count("a") <= 130
