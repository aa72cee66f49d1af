"""Finds the card models that another system's name means: part of a product name, so often several."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpupool.model.catalogue import CATALOGUE, canonical_model, find_model


def list_models(words: Iterable[str]) -> tuple[str, ...]:
    """Our names of all models whose name, or whose product's name, contains one of the words.

    A word that no known card has stays as it is: the pool may have such a card.

    >>> list_models(["A100"]), list_models(["NVIDIA-H100-80GB-HBM3"]), list_models(["1080"])
    (('A100-40G', 'A100-80G'), ('H100',), ('1080',))
    """
    return tuple(dict.fromkeys(name for word in words for name in _list_models_of(word)))


def _list_models_of(word: str) -> tuple[str, ...]:
    exact = find_model(word, CATALOGUE) or canonical_model(word)
    if exact in CATALOGUE:
        return (exact,)
    parts = _split_words(word)
    found = []
    for name in CATALOGUE:
        if _is_named_by(name, parts):
            found.append(name)
    return tuple(found) or (word,)


def _is_named_by(model: str, parts: list[str]) -> bool:
    """Whether the name or a product name of a model has these words in a row."""
    names = (_split_words(name) for name in _list_names(model))
    return any(_contains_words(words, parts) for words in names)


def _list_names(model: str) -> tuple[str, ...]:
    return (model, *CATALOGUE[model].products)


def _split_words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _contains_words(parts: list[str], wanted: list[str]) -> bool:
    """Whole parts only: `A10` is not in `A100`."""
    # Compared as whole words: as text `A10` would be found in `A100`.
    return bool(wanted) and any(parts[n : n + len(wanted)] == wanted for n in range(len(parts)))
