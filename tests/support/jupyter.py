"""A real JupyterLab in an environment of its own, and a browser that speaks to its kernels."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

#: As tried; its server is 2.21.1.
VERSION = "4.6.6"
_ROOT = Path(__file__).parents[2]
_PLACE = _ROOT / ".tools" / "jupyterlab"
#: Of one installation.
_INSTALL_SECONDS = 300


def find_jupyter() -> str:
    """Return the directory of the programs of JupyterLab, installed at first; empty: it cannot be
    had."""
    programs = _PLACE / "bin"
    if not (programs / "jupyter-lab").exists():
        try:
            install_packages(_PLACE, f"jupyterlab=={VERSION}")
        except (OSError, subprocess.SubprocessError):
            return ""
    return str(programs)


def install_packages(place: Path, *packages: str) -> None:
    """Make an environment of this Python with packages, by the uv of `make setup`.

    pip took 33 s of a processor for JupyterLab, uv takes 10. Raises OSError or SubprocessError.
    """
    words = [sys.executable, "-I", "-S", str(_ROOT / "tools" / "get_uv.py")]
    uv = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    words = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place)]
    subprocess.run(words, check=True, timeout=_INSTALL_SECONDS)
    words = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python"]
    words += [str(place / "bin" / "python"), *packages]
    subprocess.run(words, check=True, timeout=_INSTALL_SECONDS)


class _Loopback(AbstractResolver):
    """Every name is this machine, as browsers have it of those below localhost."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0
            )
        ]

    async def close(self) -> None:
        """Nothing is open."""


class Browser:
    """A browser with the cookies of one person; `origin` is that of the page it has opened."""

    def __init__(self) -> None:
        # Each request on a connection of its own: a server that was killed leaves none behind.
        connector = aiohttp.TCPConnector(resolver=_Loopback(), force_close=True)
        self.session = aiohttp.ClientSession(connector=connector)
        self.origin = ""
        self.base = ""

    async def __aenter__(self) -> Browser:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def open(self, url: str) -> aiohttp.ClientResponse:
        """Open a page and note where it is."""
        place = urlsplit(url)
        self.origin = f"{place.scheme}://{place.netloc}"
        self.base = self.origin + "/".join(place.path.split("/")[:4])
        return await self.session.get(url)

    async def ask(self, method: str, path: str, **more: Any) -> aiohttp.ClientResponse:
        """Send a request as a script of the page does."""
        headers = {"Origin": self.origin, **more.pop("headers", {})}
        return await self.session.request(method, f"{self.base}/{path}", headers=headers, **more)

    async def compute(self, code: str) -> str:
        """Run code in a new kernel; return what it has printed."""
        kernel = (await (await self.ask("POST", "api/kernels")).json())["id"]
        message = {
            "header": {
                "msg_id": uuid.uuid4().hex,
                "msg_type": "execute_request",
                "username": "",
                "session": uuid.uuid4().hex,
                "version": "5.3",
            },
            "parent_header": {},
            "metadata": {},
            "content": {"code": code, "silent": False, "store_history": True},
            "channel": "shell",
        }
        address = f"{self.base}/api/kernels/{kernel}/channels"
        async with self.session.ws_connect(address, origin=self.origin) as channel:
            await channel.send_json(message)
            async for found in channel:
                answer = json.loads(found.data)
                if answer["msg_type"] == "stream":
                    return str(answer["content"]["text"])
        raise AssertionError("the kernel ended")
