from __future__ import annotations

from mrtuner.bench.plan.order import blocks


def test_every_block_holds_every_variant_once() -> None:
    assert all(sorted(block) == ["a", "b", "c"] for block in blocks(["a", "b", "c"], 50, seed=1))


def test_the_same_seed_gives_the_same_order_and_another_one_another() -> None:
    order = blocks(["a", "b"], 64, seed=7)
    assert order == blocks(["a", "b"], 64, seed=7)
    assert order != blocks(["a", "b"], 64, seed=8)


def test_each_variant_is_first_in_every_second_pair() -> None:
    """The first run of a pair may be slower: nine of eleven pairs must not begin with one side."""
    order = blocks(["a", "b"], 40, seed=3)
    assert all(
        {one[0], other[0]} == {"a", "b"} for one, other in zip(order[::2], order[1::2], strict=True)
    )
    assert {block[0] for block in order[::2]} == {"a", "b"}, "and which is first is random"


def test_three_variants_are_in_each_place_once_in_three_blocks() -> None:
    order = blocks(["a", "b", "c"], 30, seed=1)
    for at in range(0, 30, 3):
        for place in range(3):
            assert sorted(block[place] for block in order[at : at + 3]) == ["a", "b", "c"]
    assert len({tuple(block) for block in order}) == 6, "all six orders occur"


def test_an_odd_number_of_blocks_is_one_short_of_a_balance() -> None:
    first = [block[0] for block in blocks(["a", "b"], 11, seed=5)]
    assert {first.count("a"), first.count("b")} == {5, 6}
