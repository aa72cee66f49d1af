"""How long a property may take that lives through a whole pool for each of its examples.

One example of those takes a second or more, and shrinking a failing one looks at hundreds: minutes
in which nothing is said. So they show what they found as it is; the next run begins with it, and
`GPUPOOL_SHRINK=1` makes it small then.
"""

import os

from hypothesis import HealthCheck, Phase, settings

_SHRINKING = {Phase.shrink, Phase.explain}

whole_pools = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[
        phase for phase in Phase if os.environ.get("GPUPOOL_SHRINK") or phase not in _SHRINKING
    ],
    print_blob=True,
)
