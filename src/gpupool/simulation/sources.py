"""What people type where a trace is expected, and what is read for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpupool.base.errors import BadTrace
from gpupool.model.claim import Shape
from gpupool.simulation import eventlog, sample, synthetic, trace
from gpupool.simulation.columns import header_of
from gpupool.simulation.nodes import read_nodes, read_text
from gpupool.simulation.openb import read_pods
from gpupool.simulation.synthetic import Parameters
from gpupool.simulation.trace import Node, Trace


@dataclass(frozen=True)
class Source:
    """A trace, or the parameters of one to be made up; `own` is what it runs on when nobody says."""

    trace: Trace | None = None
    synthetic: Parameters | None = None
    shapes: tuple[Shape, ...] = ()
    own: str = ""

    def nodes(self, given: str | None) -> tuple[Node, ...]:
        """The nodes that were given, else the source's own. Raises BadTrace, BadMachine, UnknownModel."""
        if given or self.own:
            return read_nodes(given or self.own)
        if self.trace is not None and self.trace.nodes:
            return self.trace.nodes
        raise BadTrace("this trace has no nodes of its own", hint="give them: --nodes nodes.csv, or --nodes 16x8xH200")


def read_trace(given: str) -> Source:
    """`sample`, `synthetic[:name=value,...]`, or a file. Raises BadTrace."""
    kind, _, rest = given.partition(":")
    if given == "sample":
        return Source(trace=sample.sample(), own=sample.NODES)
    if kind == "synthetic":
        listed = [part for part in rest.split(",") if part.startswith("shapes=")]
        parameters = synthetic.parse(",".join(part for part in rest.split(",") if part not in listed))
        whole, odd = divmod(parameters.cards, parameters.cards_per_node)
        sizes = [f"{whole}x{parameters.cards_per_node}xH200"] * bool(whole) + [f"{odd}xH200"] * bool(odd)
        shapes = _shapes(listed[-1].removeprefix("shapes=")) if listed else ()
        return Source(synthetic=parameters, shapes=shapes, own=",".join(sizes))
    return Source(trace=_read_file(given))


def _shapes(path: str) -> tuple[Shape, ...]:
    """What the pods of an openb list ask for, one by one; pods without a card, which ask for no card-time, left out."""
    pods = read_pods(Path(path))
    return tuple(pods.shapes[number] for number in pods.of.tolist() if pods.shapes[number].count)


def _read_file(path: str) -> Trace:
    text = read_text(path)
    if eventlog.looks_like(text):
        return eventlog.read_events(path, text)
    if "num_gpu" in header_of(text):
        raise BadTrace(
            f"{path} is an openb list, whose times are no load to replay",
            hint=f"--protocol fgd, or with made-up times: synthetic:shapes={path},cards=6212,days=1",
        )
    return trace.read_csv(path, text)
