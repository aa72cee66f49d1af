"""Bodies as earlier releases wrote them, by the names of their shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: Of release 0.1.0: an agent's requests, and the answers of a server.
RELEASE_0_1_0: dict[str, Any] = json.loads(
    Path(__file__).with_name("release_0_1_0.json").read_text()
)
