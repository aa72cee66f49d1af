"""Calls a stand-in in a process of its own: a library with a driver's soname must not stay in the
one that tests.

python fence_child.py LIBRARY DRIVER COMMAND [ARGUMENT...]   prints one JSON value
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

ZEROS = (ctypes.c_void_p(0),) * 12


class Child:
    def __init__(self, library: str, driver: str) -> None:
        self.library, self.driver = ctypes.CDLL(library), ctypes.CDLL(driver)

    def called(self) -> str:
        """The function of the dummy driver that was reached last."""
        return (ctypes.c_char_p.in_dll(self.driver, "dummy_called").value or b"").decode()

    def reach(self, *names: str) -> dict[str, tuple[int, str]]:
        """What each function returns, and what of the driver it reached, "" for nothing."""
        found = {}
        for name in names:
            ctypes.c_char_p.in_dll(self.driver, "dummy_called").value = b""
            found[name] = (self.library[name](*ZEROS), self.called())
        return found

    def work(self, *calls: str) -> list[list[int]]:
        """What each call "name argument..." told the throttle, how often, last of all."""
        told = []
        kept = (ctypes.c_uint64 * 7).in_dll(self.library, "bare_work")
        for call in calls:
            name, *arguments = call.split()
            kept[6] = 0
            given = [ctypes.c_uint64(int(argument, 0)) for argument in arguments]
            assert self.library[name](*given, *ZEROS) == 0
            assert self.called() == name
            told.append(list(kept))
        return told

    def exports(self, *names: str) -> list[str]:
        return [name for name in names if hasattr(self.library, name)]

    def lacking(self) -> int:
        return ctypes.c_int.in_dll(self.library, "bare_lacking").value

    def unclassified(self) -> list[str]:
        found: list[str] = []
        seen = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)(
            lambda name, _: found.append(name.decode())
        )
        self.library.bare_unclassified(seen, None)
        return found

    def lookup(self, base: str, version: str) -> tuple[str, int]:
        """What of the driver the answer reaches, and how many look-ups of unknown functions were
        counted."""
        pointer, status = ctypes.c_void_p(), ctypes.c_int()
        look_up = self.library.cuGetProcAddress_v2
        look_up(
            base.encode(),
            ctypes.byref(pointer),
            int(version),
            ctypes.c_uint64(0),
            ctypes.byref(status),
        )
        ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p,) * 12)(pointer.value or 0)(*ZEROS)
        return self.called(), self.library.bare_unknown()


if __name__ == "__main__":
    answer: Any = getattr(Child(*sys.argv[1:3]), sys.argv[3])(*sys.argv[4:])
    print(json.dumps(answer))
