"""Small pieces of English: numbers with their nouns, the first letter of a sentence."""

from __future__ import annotations


def plural(number: int, noun: str) -> str:
    """A number with its noun, regular plurals only.

    >>> plural(1, "setting"), plural(2000, "setting")
    ('1 setting', '2,000 settings')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def first_upper(text: str) -> str:
    """The text as the beginning of a sentence.

    Unlike str.capitalize, it leaves names such as JIT alone.

    >>> first_upper("with JIT")
    'With JIT'
    """
    return text[:1].upper() + text[1:]
