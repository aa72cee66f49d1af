"""YAML from outside as values: bounded in size, and every fault of it is one error.

PyYAML raises more than YAMLError: an explicit tag on a value that it does not fit (`!!int ""`,
`!!bool x`, `!!timestamp x`) ends in IndexError, KeyError or AttributeError inside its constructor.
YAML is imported where text is read: no other command pays for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

#: Aliases can make a few lines mean billions of values; a text that means more than these is
#: refused.
MOST_VALUES: Final = 500_000


class BadYaml(ValueError):
    """The text is no YAML, or means too much. `line` counts from 1; None where it is not known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def read_documents(text: str) -> list[tuple[Any, Any]]:
    """The documents of a text, empty ones left out, each as its node and its value. Raises
    BadYaml."""
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        nodes = list(_compose_nodes(loader))
    except yaml.YAMLError as error:
        raise _make_error(error) from None
    except (RecursionError, ValueError) as error:
        raise BadYaml(str(error)) from None
    _check_bounds(nodes)
    return [(node, _construct_value(loader, node)) for node in nodes]


def _construct_value(loader: Any, node: Any) -> Any:
    import yaml

    try:
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise _make_error(error) from None
    except RecursionError as error:
        raise BadYaml(str(error)) from None
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        why = str(error) if isinstance(error, ValueError) else "a value does not fit its tag"
        raise BadYaml(why, int(node.start_mark.line) + 1) from None


def _make_error(error: Any) -> BadYaml:
    mark = getattr(error, "problem_mark", None)
    return BadYaml(
        getattr(error, "problem", None) or str(error), None if mark is None else mark.line + 1
    )


def _compose_nodes(loader: Any) -> Iterator[Any]:
    while loader.check_node():
        node = loader.get_node()
        if node is not None and not (node.tag.endswith(":null") and not node.value):
            yield node


def _check_bounds(nodes: list[Any]) -> None:
    sizes: dict[int, int] = {}
    try:
        total = sum(_count_values(node, sizes) for node in nodes)
    except RecursionError as error:
        raise BadYaml(str(error)) from None
    if total > MOST_VALUES:
        raise BadYaml(f"it means more than {MOST_VALUES} values, its aliases written out")


def _count_values(node: Any, known: dict[int, int]) -> int:
    """How many values a node means, aliases written out; one that holds itself means too many."""
    if id(node) not in known:
        # A node that is met again while it is counted holds itself.
        known[id(node)] = MOST_VALUES + 1
        parts = node.value if isinstance(node.value, list) else []
        inner = [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]
        known[id(node)] = 1 + sum(_count_values(one, known) for one in inner)
    return known[id(node)]
