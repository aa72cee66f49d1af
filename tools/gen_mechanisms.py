"""The reference page of mechanisms and layers, made from the registry. Run by `make docs`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable

from generated import ROOT, write_or_check

from gpupool.mechanisms.card_modes import SWITCHES
from gpupool.mechanisms.offers.summaries import (
    MechanismSummary,
    summarize_layer,
    summarize_mechanism,
)
from gpupool.mechanisms.registry import LAYERS, MECHANISMS
from gpupool.model.enforcement import EnforcementLevels
from gpupool.model.isolation.claim_needs import REQUIRED_LEVELS

PAGE = ROOT / "docs" / "reference" / "mechanisms.md"
_MADE = "<!-- Made by `make docs`; change the code instead. -->\n"
_DIMENSIONS = ("memory", "compute", "bandwidth", "fault")


def mechanisms_page() -> str:
    """Say what each mechanism and layer does at best, and how it was tested."""
    return "\n".join(
        [
            "# Mechanisms",
            _MADE,
            "A mechanism divides a card or hands it over; a layer adds to what a mechanism has prepared. The tables",
            "say what each one does at best. What it does on one card of one node is published by the node's agent:",
            "`gpupool mechanisms [CARD]`. How to choose: [choosing a mechanism](../how-to/choosing-a-mechanism.md).",
            "",
            "Levels: **hard** is enforced by hardware, kernel or hypervisor; **soft** stops unmodified programs;",
            "**advisory** stops no program that ignores its limits; **none** is not enforced. They are about tenants",
            "of one card.",
            "",
            "## Enforcement",
            "",
            "In the order in which an agent tries them for a claim that says nothing of isolation, goal or host.",
            "For any other claim the server plans the order.",
            "",
            *_list_levels(_describe_mechanisms()),
            "",
            "## Layers",
            "",
            *_list_layers(),
            "",
            "## What each one serves",
            "",
            "| mechanism | what it is | cards | sizes | hosts | owners of a card |",
            "|---|---|---|---|---|---|",
            *_list_served(),
            "",
            "## How each one was tested",
            "",
            "Calls of every mechanism, layer and switch of a mode are killed half-way, on recorded or simulated",
            "machines ([2,000 kills](../measured/mechanism-kills-2026-11-28.md)). Beside that:",
            "",
            "| mechanism or layer | tests |",
            "|---|---|",
            *_list_tests(),
            "",
            "## What a claim demands",
            "",
            "The lowest level that `--isolation` accepts in each dimension.",
            "",
            "| `--isolation` | memory | compute | bandwidth | fault |",
            "|---|---|---|---|---|",
            *(f"| {kind} | {_format_levels(least)} |" for kind, least in REQUIRED_LEVELS.items()),
            "",
            "## Modes of a card",
            "",
            *_list_modes(),
            "",
        ]
    )


def _describe_mechanisms() -> dict[str, MechanismSummary]:
    return {name: summarize_mechanism(one) for name, one in MECHANISMS.items()}


def _list_levels(summaries: dict[str, MechanismSummary]) -> Iterable[str]:
    yield "| mechanism | memory | compute | bandwidth | fault |"
    yield "|---|---|---|---|---|"
    for name, summary in summaries.items():
        yield f"| `{name}` | {_format_levels(summary.levels)} |"


def _list_layers() -> Iterable[str]:
    if not LAYERS:
        yield "This version has none."
        return
    yield "| layer | with | memory | compute | bandwidth | fault |"
    yield "|---|---|---|---|---|---|"
    for layer in LAYERS:
        summary = summarize_layer(layer)
        with_ = ", ".join(f"`{name}`" for name in summary.mechanisms) or "all"
        yield f"| `{layer.name}` | {with_} | {_format_levels(summary.levels)} |"


def _list_served() -> Iterable[str]:
    for name, mechanism in MECHANISMS.items():
        summary = summarize_mechanism(mechanism)
        text = _describe_class(mechanism)
        sizes = "by card" if summary.sizes is None else str(summary.sizes)
        hosts = ", ".join(map(str, summary.hosts))
        owners = "one" if summary.one_owner else "several"
        if sizes == "whole":
            owners = "one"
        yield f"| `{name}` | {text} | {summary.cards or '--'} | {sizes} | {hosts} | {owners} |"


def _list_tests() -> Iterable[str]:
    for name, summary in _describe_mechanisms().items():
        yield f"| `{name}` | {summary.tested} |"
    for layer in LAYERS:
        yield f"| `{layer.name}` | {summarize_layer(layer).tested} |"


def _list_modes() -> Iterable[str]:
    if not SWITCHES:
        yield "This version switches no mode: a card is used in the mode that it is found in."
        return
    yield "`gpupool mode CARD MODE` switches a free card. Modes that an agent can set:"
    yield ""
    for mode, switch in SWITCHES.items():
        yield f"* `{mode}`: {_describe_class(switch)}"


def _describe_class(described: object) -> str:
    """Return the first paragraph of a class's description, without what is for its callers."""
    text = (inspect.getdoc(type(described)) or "").split("\n\n")[0].replace("\n", " ")
    return text.removesuffix(" Thread-safe.")


def _format_levels(levels: EnforcementLevels) -> str:
    return " | ".join(str(getattr(levels, name)) for name in _DIMENSIONS)


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: mechanisms_page()}))
