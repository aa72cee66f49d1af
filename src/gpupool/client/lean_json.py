"""`loads` and `dumps` of the standard library without importing `json`.

`json` imports `re`, which imports `enum`, `functools` and `collections`: half of an
interpreter's start again, before every `gpupool run`. The accelerator below it, `_json`, needs
none of them. Where it is missing or of another make, the ordinary module does the work.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WHITE = " \t\n\r"


class _Rules:
    """What `_json.make_scanner` reads: the defaults of `json.JSONDecoder`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo: dict[str, str] = {}  # noqa: RUF012  # read by the scanner of older Pythons, never kept

    @staticmethod
    def parse_constant(text: str) -> float:
        return float(text.replace("Infinity", "inf"))


def _slow_loads(data: bytes | str) -> Any:
    import json

    return json.loads(data)


def _slow_dumps(value: Any) -> str:
    import json

    return json.dumps(value, separators=(",", ":"))


def loads(data: bytes | str) -> Any:
    """The value of a JSON text. Raises ValueError."""
    if _scan is None:
        return _slow_loads(data)
    text = data.decode("utf-8") if isinstance(data, (bytes, bytearray)) else data
    text = text.strip(_WHITE)
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("no JSON value there") from None
    if end != len(text):
        raise ValueError(f"something follows the JSON value at character {end}")
    return value


def dumps(value: Any) -> str:
    """JSON in ASCII without spaces. Raises TypeError for what JSON has no word for."""
    if _encode is None:
        return _slow_dumps(value)
    return "".join(_encode(value, 0))


def _refuse(value: object) -> None:
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def _accelerated() -> tuple[Any, Any]:
    """The accelerator's scanner and encoder, tried once; (None, None) if it is not as expected."""
    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner

        scan = make_scanner(_Rules)  # type: ignore[arg-type]  # the stub names no protocol for its rules
        encode = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, True)
        if scan('{"a": [1, null]}', 0) == ({"a": [1, None]}, 16) and "".join(encode({"a": [1, None]}, 0)) == (
            '{"a":[1,null]}'
        ):
            return scan, encode
    except (ImportError, TypeError, AttributeError):
        return None, None
    return None, None


_scan, _encode = _accelerated()
