"""Which pods ask for cards, as an expression of the API server: those with a word of any dialect. No others meet us.

A CEL expression over `object`, made of the dialects' own tables. It may say yes to a pod that then asks nothing; it
never says no to one that does.
"""

from __future__ import annotations

from gpupool.dialects.contract import Name, Where
from gpupool.dialects.registry import CARD_WORDS, DIALECTS
from gpupool.kubernetes.names import CLAIM


def asks() -> str:
    """The expression."""
    words = [name for dialect in DIALECTS for name in dialect.names]
    resources = any_of("name", [one for one in words if one.where is Where.RESOURCE])
    notes = any_of("key", [one for one in words if one.where is Where.ANNOTATION and one.key != CLAIM])
    env = any_of("e.name", [one for one in words if one.where is Where.ENV])
    containers = "(object.spec.containers + object.spec.?initContainers.orValue([]))"
    return " || ".join(
        (
            f"{containers}.exists(c, c.?resources.?limits.orValue({{}}).exists(name, {resources}))",
            f"{containers}.exists(c, c.?resources.?requests.orValue({{}}).exists(name, {resources}))",
            f"{containers}.exists(c, c.?env.orValue([]).exists(e, {env}))",
            f"object.metadata.?annotations.orValue({{}}).exists(key, {notes})",
        )
    )


def seems_to_ask() -> str:
    """Whether the pod names cards that no dialect knows, or claims of devices: it is left alone, with a warning.

    A pod with a word of a dialect is not meant: `asks` is of it.
    """
    containers = "(object.spec.containers + object.spec.?initContainers.orValue([]))"
    named = f"name.contains('/') && name.lowerAscii().matches({quoted(CARD_WORDS)})"
    seems = (f"c.?resources.?{part}.orValue({{}}).exists(name, {named})" for part in ("limits", "requests"))
    each = " || ".join(f"{containers}.exists(c, {one})" for one in seems)
    return f"(size(object.spec.?resourceClaims.orValue([])) > 0 || {each}) && !({asks()})"


def any_of(variable: str, names: list[Name]) -> str:
    """Exact names as a list, patterns as regular expressions."""
    exact = sorted({one.key for one in names if "<" not in one.key})
    patterns = sorted({one.pattern.pattern for one in names if "<" in one.key})
    listed = f"{variable} in [{', '.join(map(quoted, exact))}]"
    return " || ".join([listed, *(f"{variable}.matches({quoted(f'^{one}$')})" for one in patterns)])


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
