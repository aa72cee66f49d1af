"""Load balancers of networks: what a client asks for and gets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel

#: Characters of a certificate chain with its key, at most: six certificates of usual size.
LONGEST_CERTIFICATE = 65536


class HttpRouteIn(WireModel):
    """Which requests some jobs answer. The longest path of the most exact host counts."""

    host: str | None = Field(
        None, max_length=253, description="api.example.com or *.example.com; null: any"
    )
    path: str = Field("/", max_length=255, description="and all below it")
    backends: list[Name] = Field(
        min_length=1, max_length=16, description="names of jobs, arrays or gangs"
    )
    target_port: int = Field(ge=1, le=65535, description="on which they serve")


class HttpSettingsIn(WireModel):
    """How a load balancer of HTTP answers."""

    routes: list[HttpRouteIn] = Field(
        default_factory=list,
        max_length=32,
        description="besides the balancer's own backends, which answer what no route takes",
    )
    certificate: str | None = Field(
        None,
        max_length=LONGEST_CERTIFICATE,
        description="PEM of the chain and its private key, for HTTPS; never shown again",
    )
    https_port: int = Field(443, ge=1, le=65535)
    redirects: bool = Field(False, description="send plain HTTP to HTTPS")
    is_sticky: bool = Field(False, description="keep a client at one job, by a cookie")
    check_path: str | None = Field(
        None,
        max_length=255,
        description="which backends have to answer with 200 to 399; null: they accept connections",
    )
    drain_seconds: int = Field(
        10, ge=0, le=60, description="for which a job that is stopped may finish its requests"
    )


class CertificateIn(WireModel):
    """A certificate in place of the one before."""

    certificate: str = Field(max_length=LONGEST_CERTIFICATE, description="PEM of chain and key")


class DrainIn(WireModel):
    """A job that gets no new requests."""

    job: str = Field(max_length=127, description="its name, or its DNS name in the network")


class HttpRouteOut(WireModel):
    host: str | None
    path: str
    backends: list[str]
    target_port: int


class ProxyMemberOut(WireModel):
    """A job behind a load balancer of HTTP, as HAProxy sees it."""

    dns_name: str
    address: str
    port: int
    state: Literal["up", "down", "draining", "unknown"] = Field(
        description="unknown: no probe has passed yet, or the last one failed and the next decides"
    )
    check: str = Field("", description="the last probe in HAProxy's words, as L7OK 200")
    sessions: int = Field(0, description="requests and connections that it serves now")
    requests: int = Field(0, description="that it got since the agent's start")


class ProxyMachineOut(WireModel):
    """A machine with a proxy of a load balancer of HTTP."""

    node: str
    role: Literal["serving", "standby"] = Field(
        description="serving: new connections go to it; standby: it takes over"
    )
    state: Literal["ready", "failed", "silent"]
    reason: str = ""
    sessions: int = Field(0, description="requests and connections that it serves now")


class HttpBalancerOut(WireModel):
    """What a load balancer of HTTP has beside its address."""

    state: Literal["starting", "ready", "failed"]
    reason: str = ""
    address: str = Field(description="of its proxy, from which backends are asked")
    https_port: int | None
    routes: list[HttpRouteOut]
    redirects: bool
    is_sticky: bool
    check_path: str | None
    drain_seconds: int
    certificate_end_ns: int | None = Field(None, description="until when its certificate holds")
    members: list[ProxyMemberOut] = Field(default_factory=list)
    machines: list[ProxyMachineOut] = Field(
        default_factory=list, description="one, or the pair of gateways"
    )


class LoadBalancerIn(WireModel):
    """One address of a network behind which some of its jobs serve."""

    name: Name
    protocol: Literal["tcp", "udp"] = "tcp"
    port: int = Field(ge=1, le=65535, description="on which it is asked")
    target_port: int = Field(ge=1, le=65535, description="on which its backends serve")
    backends: list[Name] = Field(
        min_length=0, max_length=16, description="names of jobs, arrays or gangs"
    )
    is_checked: bool = Field(
        True, description="leave out backends that accept no connection (probed each second)"
    )
    http: HttpSettingsIn | None = Field(
        None, description="answer HTTP; null: pass connections on as they are"
    )


class LoadBalancerPartOut(WireModel):
    """A job that serves behind a load balancer."""

    dns_name: str
    address: str
    address6: str | None = Field(None, description="null: its subnet has no IPv6")


class LoadBalancerOut(WireModel):
    id: str
    name: str = Field(description="its DNS name in the network too")
    network: str
    address: str
    protocol: str
    port: int
    target_port: int
    backends: list[str] = Field(description="names of jobs, arrays or gangs")
    is_checked: bool
    members: list[LoadBalancerPartOut] = Field(description="jobs behind it that run now")
    http: HttpBalancerOut | None = Field(None, description="null: it passes connections on")
    created_ns: int
    address6: str | None = Field(None, description="null: it answers over IPv4 alone")


class ExposureIn(WireModel):
    """A port of a job that is published by a load balancer of its network."""

    port: int = Field(ge=1, le=65535, description="on which the job serves")
    is_http: bool = Field(False, description="by one of HTTP, on port 80")
    host: str | None = Field(
        None, max_length=253, description="with is_http: the only host that it answers"
    )
    name: Name | None = Field(
        None, description="of the load balancer, also in DNS; null: made of job and port"
    )


class ExposureOut(WireModel):
    """A published port of a job. It ends with the job."""

    job: str
    port: int
    is_http: bool
    host: str | None
    network: str
    load_balancer: LoadBalancerOut
    machine_port: int | None = Field(
        description="of the pool's machine, for clients outside; null: there is none"
    )
    inside_reason: str = Field("", description="why clients outside do not reach it")
    created_ns: int
