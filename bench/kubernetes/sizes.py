"""How much is measured."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Of the rates and waits: nodes, pods and turns of each, and how many pods come a second
    (`arrivals`). Of what is asked one after the other: `asks`.

    Of the large pool: `many_nodes` of eight cards and `many_pods`. A gang has `gang` pods, each a
    node of its own.
    """

    nodes: int = 100
    pods: int = 1000
    rounds: int = 3
    arrivals: int = 20
    asks: int = 200
    hami_pods: int = 200
    many_nodes: int = 1000
    many_pods: int = 20_000
    gang: int = 64

    @property
    def command(self) -> str:
        return f"python -m bench.kubernetes --nodes {self.nodes} --pods {self.pods} --arrivals {self.arrivals}"
