"""`python -m tests.support.operators`: build what is missing of the controllers."""

import sys

from tests.support.cluster.directory import ClusterError
from tests.support.operators import kube_ovn
from tests.support.operators.programs import OPERATORS


def report(line: str) -> None:
    print(line, file=sys.stderr)


def main() -> int:
    try:
        for operator in OPERATORS:
            operator.build(report)
        kube_ovn.build(report)
    except ClusterError as refusal:
        print(f"operators: {refusal}", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
