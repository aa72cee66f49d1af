"""Streams into running jobs, and visits of the pages that jobs serve."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpupool.wire.common import WireModel

#: Of a service of a job: its socket is `$GPUPOOL_RUN/NAME.sock`.
ServiceName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
Argument = Annotated[str, Field(max_length=131072)]


class TerminalSize(WireModel):
    """Rows and columns of a terminal."""

    rows: int = Field(24, ge=1, le=65535)
    columns: int = Field(80, ge=1, le=65535)


class StreamIn(WireModel):
    """What a stream leads to, in a running job."""

    kind: Literal["port", "service", "exec", "ssh"]
    port: int | None = Field(None, ge=1, le=65535, description="of kind port: TCP, on loopback")
    service: ServiceName | None = Field(
        None, description="of kind service: the socket NAME.sock in GPUPOOL_RUN of the job"
    )
    argv: list[Argument] = Field(
        default_factory=list, max_length=4096, description="of kind exec; empty: the user's shell"
    )
    cwd: str | None = Field(None, max_length=4096, description="of kind exec; null: the job's")
    terminal: TerminalSize | None = Field(
        None, description="of kind exec: run it in a terminal of that size"
    )
    term: str = Field("", max_length=64, description="of kind exec: TERM of the terminal")
    public_key: str | None = Field(
        None,
        max_length=1024,
        pattern=r"^[\x21-\x7e]+ [\x21-\x7e]+( [\x20-\x7e]*)?$",
        description="of kind ssh: who may log in, a line like those of authorized_keys",
    )


class StreamOut(WireModel):
    """A stream that is ready to be opened, once."""

    stream: str = Field(description="GET /api/v1/streams/{stream} with Upgrade: gpupool-relay")
    job: str = Field(description="the job's id")
    expires_ns: int


class VisitIn(WireModel):
    """A page of a job that a person wants to see in a browser."""

    service: ServiceName = "nb"
    path: str = Field(
        "", max_length=2000, pattern=r"^[\x21-\x7e]*$", description="below the service's base"
    )


class VisitOut(WireModel):
    """A link that opens the page once, in one browser."""

    url: str
    expires_ns: int


class WorkspaceProgramOut(WireModel):
    """A program that a person works in through a browser, as a job that `POST /jobs` takes."""

    name: str = Field(description="jupyter or vscode")
    title: str
    service: ServiceName = Field(description="of the link that POST /jobs/{job}/visits makes")
    page: str = Field(description="the path of that link")
    argv: list[str] = Field(description="starts in the home of the job's user; the last is a DIR")
    env: dict[str, str] = Field(description="for a job that a browser submits")
    one_machine: bool = Field(description="every job runs on the machine of the server")
    missing: str | None = Field(
        description="why a browser's job of it would fail; null: it would not, or is not known"
    )
    install: str = Field(description="the command that installs it")
