"""Card models as other systems name them: parts of a product's name, which may mean several of our models."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpupool.model.catalogue import CATALOGUE, canonical_model, find_model


def meant(words: Iterable[str]) -> tuple[str, ...]:
    """Our names of all models whose name, or whose product's name, contains one of the words.

    A word that no known card has stays as it is: the pool may have such a card.

    >>> meant(["A100"]), meant(["NVIDIA-H100-80GB-HBM3"]), meant(["1080"])
    (('A100-40G', 'A100-80G'), ('H100',), ('1080',))
    """
    return tuple(dict.fromkeys(name for word in words for name in _of(word)))


def _of(word: str) -> tuple[str, ...]:
    exact = find_model(word, CATALOGUE) or canonical_model(word)
    if exact in CATALOGUE:
        return (exact,)
    parts = _parts(word)
    found = tuple(
        card.name for card in CATALOGUE.values() if any(_contains(_parts(p), parts) for p in _names(card.name))
    )
    return found or (word,)


def _names(model: str) -> tuple[str, ...]:
    return (model, *CATALOGUE[model].products)


def _parts(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _contains(parts: list[str], wanted: list[str]) -> bool:
    """Whole parts only: `A10` is not in `A100`."""
    return bool(wanted) and any(parts[n : n + len(wanted)] == wanted for n in range(len(parts)))
