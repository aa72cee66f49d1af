"""What the Helm chart puts into a cluster, from `install.objects`, so that both ways of installing are one.

The namespace is the release's: a word that stands for it is replaced when the chart is rendered. The namespace itself
is helm's to make (`--create-namespace`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from gpupool.kubernetes import install

FOLDER = Path(__file__).parent.parent / "deploy" / "helm" / "gpupool" / "files"
NAMESPACE = "THE-NAMESPACE-OF-THE-RELEASE"
MADE = "# Made by `make docs` from gpupool/kubernetes/install.py; change that instead.\n"


def files() -> dict[str, str]:
    """By name what the chart's files say; the webhook's configuration goes with the webhook."""
    objects = [made for made in install.objects(NAMESPACE) if made["kind"] != "Namespace"]
    parts = {"objects.yaml": objects, "webhook.yaml": [install.webhook(NAMESPACE)]}
    return {name: MADE + yaml.safe_dump_all(made, sort_keys=False) for name, made in parts.items()}


def main(words: list[str]) -> int:
    """Write them; with --check say whether that would change anything."""
    made = files()
    if "--check" in words:
        stale = [name for name, text in made.items() if (FOLDER / name).read_text() != text]
        if stale:
            sys.stderr.write(f"{', '.join(stale)} of the chart: run `make docs`\n")
        return 1 if stale else 0
    for name, text in made.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
