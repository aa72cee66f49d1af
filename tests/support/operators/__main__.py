"""`python -m tests.support.operators`: build what is missing of the controllers."""

import sys

from tests.support.cluster.directory import ClusterError
from tests.support.operators.programs import OPERATORS


def main() -> int:
    try:
        for operator in OPERATORS:
            operator.build(lambda line: print(line, file=sys.stderr))
    except ClusterError as refusal:
        print(f"operators: {refusal}", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
