"""The language of the texts that the server itself shows in a browser."""

from __future__ import annotations

from typing import Any, Literal, get_args

Language = Literal["en", "zh"]


def choose_language(scope: Any) -> Language:
    """Return the language of ours that the browser prefers; English where it names none of them."""
    best: Language = "en"
    best_quality = 0.0
    for name, value in scope["headers"]:
        if name != b"accept-language":
            continue
        for part in value.decode("latin-1").lower().split(","):
            tag, _, parameter = part.strip().partition(";")
            quality = _read_quality(parameter)
            for language in get_args(Language):
                if tag.split("-")[0] == language and quality > best_quality:
                    best = language
                    best_quality = quality
    return best


def _read_quality(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if name != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
