"""What a person chooses before a server starts, and the bounds of it. Pure."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpupool.base.errors import BadOption
from gpupool.base.units import WHOLE, format_mib, parse_gpu, parse_memory


@dataclass(frozen=True)
class ServerBounds:
    """What servers of a hub may ask for.

    Attributes:
        gpu: the usual share of a card, as text.
        memory: the usual memory, as text; empty: the same part of the card as of the compute.
        most_gpu: thousandths of a card.
        most_memory: bytes; None: as much as a card has.
        images: containers that may be chosen; none: servers run on the node itself.
    """

    gpu: str = "0.25"
    memory: str = "6GiB"
    most_gpu: int = WHOLE
    most_memory: int | None = None
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServerChoice:
    """What one server asks for, checked; `image` is empty for the node itself."""

    gpu: str
    memory: str
    image: str


def make_form(bounds: ServerBounds) -> str:
    """Make the HTML of the choice."""
    parts = [
        _make_field("gpu", "Share of a card (0.001 to 1)", bounds.gpu),
        _make_field("memory", "Memory of the card (8GiB; empty: as the share)", bounds.memory),
    ]
    if bounds.images:
        options = "".join(f"<option>{html.escape(image)}</option>" for image in bounds.images)
        parts.append(
            '<label for="gpupool-image">Image</label>'
            f'<select id="gpupool-image" name="image" class="form-control">{options}</select>'
        )
    return "\n".join(parts)


def read_choice(options: Mapping[str, object], bounds: ServerBounds) -> ServerChoice:
    """Check what a person chose, or a program sent.

    Raises:
        BadOption, BadFraction, BadQuantity: with the bound and what was asked for.
    """
    gpu = _read_text(options, "gpu") or bounds.gpu
    memory = _read_text(options, "memory") if "memory" in options else bounds.memory
    milli, cards = parse_gpu(gpu)
    if cards is not None and cards > 1:
        raise BadOption(f"{gpu} cards for one server", hint="a share of one card: 0.001 to 1")
    if milli > bounds.most_gpu:
        raise BadOption(
            f"a share of {gpu}: servers of this hub get {bounds.most_gpu / WHOLE:g} at most",
            hint="choose a smaller share",
        )
    if memory and bounds.most_memory is not None and parse_memory(memory) > bounds.most_memory:
        most = format_mib(bounds.most_memory)
        raise BadOption(
            f"memory of {memory}: servers of this hub get {most} at most",
            hint="choose less memory",
        )
    image = _read_text(options, "image")
    if not image and bounds.images:
        image = bounds.images[0]
    if image and image not in bounds.images:
        raise BadOption(
            f"the image {image[:200]!r} is none of this hub", hint="choose a listed one"
        )
    return ServerChoice(gpu, memory, image)


def read_form(fields: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the options of a form that was sent: the last value of each field."""
    return {name: values[-1].strip() for name, values in fields.items() if values}


def _read_text(options: Mapping[str, object], name: str) -> str:
    return str(options.get(name) or "").strip()


def _make_field(name: str, label: str, value: str) -> str:
    return (
        f'<label for="gpupool-{name}">{html.escape(label)}</label>'
        f'<input id="gpupool-{name}" name="{name}" class="form-control" value="{html.escape(value)}">'
    )
