"""The templates that come with gpupool, from `data/`. Read once; a wrong one is a fault of the build."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import yaml

from gpupool.templates.document import check_document
from gpupool.wire.templates.documents import TemplateIn

FOLDER = Path(__file__).with_name("data")


@cache
def read_catalogue() -> Mapping[str, Mapping[int, TemplateIn]]:
    """Return the shipped documents by name and version."""
    found = dict[str, dict[int, TemplateIn]]()
    for path in sorted(FOLDER.glob("*.yaml")):
        document = TemplateIn.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        check_document(document)
        found.setdefault(document.name, {})[document.version] = document
    return found
