"""The client of a pool for commands, agents and scripts.

`Pool` is the Python SDK, `transport.Api` one connection to a server.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpupool.client.sdk import Pool as Pool

__all__ = ["Pool"]


def __getattr__(name: str) -> object:
    """`Pool` on first use: the command line's hot path imports this package and must not pay for
    the SDK."""
    if name == "Pool":
        from gpupool.client.sdk import Pool

        return Pool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
