"""A program that calls what it is told to, a JSON list a line: [function, [kind, value], ...] gives
[result, outs...].

Kinds: `u64`, `u32`, `bytes` (hex, given by address), `out` (8 bytes to be filled, given by address,
answered), `fill` (so many bytes, answered in hex), `change` (these bytes, answered in hex), `value`
(64 bytes in hex, by value). The library is loaded by its public name, as any CUDA program does it.
`fork`, `exec` and `end` happen to the program.
"""

import ctypes
import json
import os
import sys
from typing import Any


class Bytes64(ctypes.Structure):
    """A CUipcMemHandle."""

    _fields_ = (("content", ctypes.c_char * 64),)


def call(library: ctypes.CDLL, name: str, arguments: list[list[object]]) -> list[object]:
    given: list[object] = []
    outs: list[Any] = []
    for kind, value in arguments:
        if kind == "out":
            outs.append(ctypes.c_uint64(int(str(value or 0))))
            given.append(ctypes.byref(outs[-1]))
        elif kind == "fill":
            outs.append(ctypes.create_string_buffer(int(str(value))))
            given.append(outs[-1])
        elif kind == "change":
            content = bytes.fromhex(str(value))
            outs.append(ctypes.create_string_buffer(content, len(content)))
            given.append(outs[-1])
        elif kind == "value":
            given.append(Bytes64.from_buffer_copy(bytes.fromhex(str(value))))
        elif kind == "bytes":
            given.append(ctypes.create_string_buffer(bytes.fromhex(str(value))))
        else:
            given.append((ctypes.c_uint64 if kind == "u64" else ctypes.c_uint32)(int(str(value))))
    result = getattr(library, name)(*given)
    return [
        result,
        *(out.value if isinstance(out, ctypes.c_uint64) else out.raw.hex() for out in outs),
    ]


def main() -> None:
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        if name == "fork" and (
            child := os.fork()
        ):  # the child goes on until it is told to end, then its parent does
            os.waitpid(child, 0)
            continue
        if name in ("fork", "end", "exec"):
            print(json.dumps([0, os.getpid()]), flush=True)
        if name == "end":
            os._exit(0)
        if name == "exec":
            os.execv(sys.executable, [sys.executable, __file__])
        if name == "fork":
            continue
        library = "libnvidia-ml.so.1" if name.startswith("nvml") else "libcuda.so.1"
        print(json.dumps(call(ctypes.CDLL(library), name, arguments)), flush=True)


if __name__ == "__main__":
    main()
