"""C text of the functions that the stand-in exports and that are generated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from classified import FAMILIES, BadTable, Row
from symbols import Symbol

# What a parameter list must contain, and the bytes that the call then moves. The first that fits is
# taken.
_COPY_BYTES: tuple[tuple[dict[str, str], str], ...] = (
    ({"ByteCount": ""}, "ByteCount"),
    ({"pCopy": "MEMCPY2D"}, "FENCE_BYTES_2D(pCopy)"),
    ({"pCopy": "MEMCPY3D"}, "FENCE_BYTES_3D(pCopy)"),
    ({"sizes": "size_t *", "count": ""}, "fence_sum(sizes, count)"),
    ({"opList": "CUDA_MEMCPY3D_BATCH_OP *", "numOps": ""}, "fence_sum_3d(opList, numOps)"),
    ({"opList": "CUDA_FABRIC_COPY_BATCH_OP *", "numOps": ""}, "fence_sum_fabric(opList, numOps)"),
    ({"op": "CUDA_MEMCPY3D_BATCH_OP *"}, "fence_sum_3d(op, 1)"),
    (
        {"paramsArray": "CUmemDecompressParams *", "count": ""},
        "fence_sum_decompressed(paramsArray, count)",
    ),
    ({"devPtr": "", "count": "size_t"}, "count"),
    ({"dst": "", "size": "size_t"}, "size"),
)
_MEMSET_BYTES = (
    ({"N": ""}, "(uint64_t)N * {width}"),
    ({"Width": "", "Height": ""}, "(uint64_t)Width * Height * {width}"),
)
_BLOCKS = (
    ({"gridDimX": "", "gridDimY": "", "gridDimZ": ""}, "(uint64_t)gridDimX * gridDimY * gridDimZ"),
    ({"config": "CUlaunchConfig *"}, "FENCE_BLOCKS(config)"),
    ({"grid_width": "", "grid_height": ""}, "(uint64_t)grid_width * (uint64_t)grid_height"),
    ({"f": "CUfunction"}, "1"),
    (
        {"launchParamsList": "CUDA_LAUNCH_PARAMS *", "numDevices": ""},
        "fence_sum_blocks(launchParamsList, numDevices)",
    ),
)
_KEYS = (
    ({"f": "CUfunction"}, "f"),
    (
        {"launchParamsList": "CUDA_LAUNCH_PARAMS *"},
        "launchParamsList ? launchParamsList[0].function : NULL",
    ),
)
_DIRECTIONS = (
    (r"Hto[DA]", "FENCE_COPY_TO_DEVICE"),
    (r"[DA]toH", "FENCE_COPY_TO_HOST"),
    (r"[DA]to[DA]", "FENCE_COPY_ON_DEVICE"),
    (r"Peer", "FENCE_COPY_PEER"),
)


def parameters(symbol: Symbol) -> str:
    return ", ".join(f"{each.type} {each.name}" for each in symbol.prototype.parameters) or "void"


def arguments(symbol: Symbol) -> str:
    return ", ".join(each.name for each in symbol.prototype.parameters)


def heading(symbol: Symbol) -> str:
    return f"{symbol.prototype.returns} fence_{symbol.name}({parameters(symbol)})"


def wrappers(rows: Iterable[Row], real: str) -> Iterator[str]:
    """The exported functions of all rows but those with handler `own`. `real` names the struct of
    real functions."""
    for row in rows:
        if row.handler in FAMILIES:
            yield f"{heading(row.symbol)} {{\n{_WORK[row.handler](row.symbol)}\n{_throttled(row.symbol, real)}}}\n"
        elif row.stem:
            yield f"{heading(row.symbol)} {{\n    return {_by_stem(row, real)};\n}}\n"
        elif row.klass == "wait":
            yield f"{heading(row.symbol)} {{\n{_waiting(row.symbol, real)}}}\n"
        elif row.klass == "deny":
            yield f"{heading(row.symbol)} {{\n    return {row.handler.partition(':')[2]};\n}}\n"


def _throttled(symbol: Symbol, real: str) -> str:
    call = f"{real}.{symbol.name}({arguments(symbol)})"
    return f"    fence_work_begin(&work);\n    return fence_work_end(&work, {call});\n"


def _waiting(symbol: Symbol, real: str) -> str:
    call = f"{real}.{symbol.name}({arguments(symbol)})"
    return f"    bool begun = fence_wait_begin();\n    return fence_wait_end(begun, {call});\n"


def _by_stem(row: Row, real: str) -> str:
    given = [f"{real}.{row.symbol.name}"]
    for each in row.symbol.prototype.parameters:
        given.append(
            f"FENCE_STREAM({each.name}, {_default_stream(row.symbol)})"
            if _is_twin_stream(row, each.type)
            else each.name
        )
    return f"fence_on_{row.stem}({', '.join(given)})"


def _is_twin_stream(row: Row, kind: str) -> bool:
    return bool(row.symbol.twin) and kind == "CUstream"


def _default_stream(symbol: Symbol) -> str:
    return "CU_STREAM_PER_THREAD" if symbol.twin else "CU_STREAM_LEGACY"


def _stream(symbol: Symbol) -> str | None:
    """Expression of the stream that the caller names, None where the call has none."""
    for each in symbol.prototype.parameters:
        if each.type == "CUstream":
            return each.name
        if "CUlaunchConfig" in each.type:
            return f"{each.name} ? {each.name}->hStream : NULL"
        if each.type == "CUDA_LAUNCH_PARAMS *":
            return f"{each.name} ? {each.name}[0].hStream : NULL"
    return None


# What a call does not say of its work. An initialiser would zero the throttle's own words too, by a
# string instruction of 10 ns.
_UNSAID = {"copy": "FENCE_COPY_ANY", "synchronous": "false", "key": "NULL", "units": "0"}


def _filled(fields: dict[str, str]) -> str:
    assignments = [f"    work.{name} = {value};" for name, value in (_UNSAID | fields).items()]
    return "\n".join(["    struct fence_work work;", *assignments])


def _fields(symbol: Symbol, kind: str) -> dict[str, str]:
    named, default = _stream(symbol), _default_stream(symbol)
    return {
        "kind": f"FENCE_WORK_{kind}",
        "stream": f"FENCE_STREAM({named}, {default})" if named else default,
    }


def _launch(symbol: Symbol) -> str:
    return _filled(
        _fields(symbol, "KERNEL") | {"key": _first(symbol, _KEYS), "units": _first(symbol, _BLOCKS)}
    )


def _graph(symbol: Symbol) -> str:
    return _filled(
        _fields(symbol, "GRAPH") | {"key": symbol.prototype.parameters[0].name, "units": "1"}
    )


def _copy(symbol: Symbol) -> str:
    fields = _fields(symbol, "COPY") | {
        "units": _first(symbol, _COPY_BYTES),
        "copy": _direction(symbol),
    }
    return _filled(fields | ({} if _stream(symbol) else {"synchronous": "true"}))


def _memset(symbol: Symbol) -> str:
    found = re.search(r"D(?:2D)?(8|16|32)", symbol.base)
    if found is None:
        raise BadTable(f"{symbol.name}: handler memset needs the width of an element in the name")
    return _filled(
        _fields(symbol, "MEMSET")
        | {"units": _first(symbol, _MEMSET_BYTES).format(width=int(found[1]) // 8)}
    )


def _direction(symbol: Symbol) -> str:
    for pattern, direction in _DIRECTIONS:
        if re.search(pattern, symbol.base):
            return direction
    return (
        "FENCE_DIRECTION(pCopy)"
        if any(each.name == "pCopy" for each in symbol.prototype.parameters)
        else "FENCE_COPY_ANY"
    )


def _first(symbol: Symbol, rules: Iterable[tuple[dict[str, str], str]]) -> str:
    types = {each.name: each.type for each in symbol.prototype.parameters}
    for wanted, expression in rules:
        if all(name in types and part in types[name] for name, part in wanted.items()):
            return expression
    raise BadTable(
        f"{symbol.name}: no rule says how much work ({parameters(symbol)}) is; handle it by `own`"
    )


_WORK: dict[str, Callable[[Symbol], str]] = {
    "launch": _launch,
    "graph": _graph,
    "copy": _copy,
    "memset": _memset,
}
