"""Builds the CEL expression that says which pods request GPUs in any dialect.

The expression over `object` is made of the dialects' own tables. It may match a pod that then
requests nothing; it never misses one that does.
"""

from __future__ import annotations

from gpupool.dialects.contract import KnownWord, WordPlace
from gpupool.dialects.manifests.registry import CARD_WORDS, DIALECTS
from gpupool.kubernetes.resources.names import CLAIM


def requests_gpu_expression() -> str:
    """The expression."""
    words = [name for dialect in DIALECTS for name in dialect.names]
    resources = any_name_expression(
        "name", [one for one in words if one.where is WordPlace.RESOURCE]
    )
    notes = any_name_expression(
        "key", [one for one in words if one.where is WordPlace.ANNOTATION and one.key != CLAIM]
    )
    env = any_name_expression("e.name", [one for one in words if one.where is WordPlace.ENV])
    containers = "(object.spec.containers + object.spec.?initContainers.orValue([]))"
    return " || ".join(
        (
            f"{containers}.exists(c, c.?resources.?limits.orValue({{}}).exists(name, {resources}))",
            f"{containers}.exists(c, c.?resources.?requests.orValue({{}}).exists(name, {resources}))",
            f"{containers}.exists(c, c.?env.orValue([]).exists(e, {env}))",
            f"object.metadata.?annotations.orValue({{}}).exists(key, {notes})",
        )
    )


def may_request_gpu_expression() -> str:
    """Whether the pod names cards that no dialect knows, or claims of devices: it is left alone,
    with a warning.

    A pod with a word of a dialect is not meant: `asks` is of it.
    """
    containers = "(object.spec.containers + object.spec.?initContainers.orValue([]))"
    named = f"name.contains('/') && name.lowerAscii().matches({quote_string(CARD_WORDS)})"
    seems = (
        f"c.?resources.?{part}.orValue({{}}).exists(name, {named})"
        for part in ("limits", "requests")
    )
    each = " || ".join(f"{containers}.exists(c, {one})" for one in seems)
    return f"(size(object.spec.?resourceClaims.orValue([])) > 0 || {each}) && !({requests_gpu_expression()})"


def any_name_expression(variable: str, names: list[KnownWord]) -> str:
    """Exact names as a list, patterns as regular expressions."""
    exact = sorted({one.key for one in names if "<" not in one.key})
    patterns = sorted({one.pattern.pattern for one in names if "<" in one.key})
    listed = f"{variable} in [{', '.join(map(quote_string, exact))}]"
    return " || ".join(
        [listed, *(f"{variable}.matches({quote_string(f'^{one}$')})" for one in patterns)]
    )


def quote_string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
