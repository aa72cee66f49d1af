"""A protocol out of its table: message classes, a server's handlers, a client's calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from gpupool.kubernetes.node.grpc.tables import (
    DEVICE_PLUGIN,
    PLUGIN_REGISTRATION,
    POD_RESOURCES,
    RESOURCE_ALLOCATION,
)

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64,
}


@dataclass(frozen=True)
class Call:
    path: str
    request: Any
    answer: Any
    streams: bool


class Protocol:
    """`protocol.messages.Device(ID=…)` makes a message; `protocol.call(channel,
    "DevicePlugin/Allocate")` a call."""

    def __init__(self, package: str, messages: str, calls: str) -> None:
        self.package = package
        self.messages = Messages(package, messages)
        described = {}
        for name, request, answer in map(str.split, _lines(calls)):
            described[name] = self._call(name, request, answer)
        self.calls = described

    def _call(self, name: str, request: str, answer: str) -> Call:
        path = f"/{self.package}.{name}"
        streams = answer.endswith("*")
        return Call(
            path,
            getattr(self.messages, request),
            getattr(self.messages, answer.rstrip("*")),
            streams,
        )

    def call(self, channel: grpc.Channel, name: str) -> Callable[..., Any]:
        """What a client calls with a message, on a channel of grpc or of grpc.aio."""
        found = self.calls[name]
        make = channel.unary_stream if found.streams else channel.unary_unary
        made: Callable[..., Any] = make(
            found.path, found.request.SerializeToString, found.answer.FromString
        )
        return made

    def handlers(self, service: str, implementation: object) -> grpc.GenericRpcHandler:
        """For a server of grpc or of grpc.aio: the implementation has a method by the name of each
        call."""
        methods = {}
        for name, found in self.calls.items():
            of, method = name.split("/")
            if of == service:
                make = (
                    grpc.unary_stream_rpc_method_handler
                    if found.streams
                    else grpc.unary_unary_rpc_method_handler
                )
                methods[method] = make(
                    getattr(implementation, method),
                    found.request.FromString,
                    found.answer.SerializeToString,
                )
        if not methods:
            raise KeyError(f"{self.package} has no service {service}")
        return grpc.method_handlers_generic_handler(f"{self.package}.{service}", methods)


class Messages:
    """The message classes of one package, as attributes."""

    def __init__(self, package: str, table: str) -> None:
        file = descriptor_pb2.FileDescriptorProto(
            name=f"{package}.proto", package=package, syntax="proto3"
        )
        for line in _lines(table):
            name, *fields = line.split()
            _describe(file.message_type.add(name=name), fields, f".{package}")
        pool = (
            descriptor_pool.DescriptorPool()
        )  # of its own: two packages have messages of one name
        pool.Add(file)
        classes: dict[str, Any] = {}
        for message in file.message_type:
            classes[message.name] = message_factory.GetMessageClass(
                pool.FindMessageTypeByName(f"{package}.{message.name}")
            )
        self._classes: dict[str, Any] = classes

    def __getattr__(self, name: str) -> Any:
        try:
            return self._classes[name]
        except KeyError:
            raise AttributeError(name) from None

    def names(self) -> list[str]:
        return list(self._classes)


def _describe(message: descriptor_pb2.DescriptorProto, fields: list[str], package: str) -> None:
    for word in fields:
        name, rest = word.split("=")
        number, kind = rest.split(":")
        field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
        if kind.startswith("<"):
            _describe_map(message, field, kind[1:-1], package)
            continue
        _set_type(field, kind.rstrip("*?"), package)
        if kind.endswith("*"):
            field.label = _Field.LABEL_REPEATED
        if kind.endswith("?"):
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")


def _describe_map(
    message: descriptor_pb2.DescriptorProto, field: _Field, kind: str, package: str
) -> None:
    """On the wire a map is a repeated entry of a key and a value, of a type inside the message."""
    entry = message.nested_type.add(name=f"{field.name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    _set_type(entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL), "string", package)
    _set_type(entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL), kind, package)
    field.label = _Field.LABEL_REPEATED
    field.type = _Field.TYPE_MESSAGE
    field.type_name = f"{package}.{message.name}.{entry.name}"


def _set_type(field: _Field, kind: str, package: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f"{package}.{kind}"


def _lines(table: str) -> list[str]:
    return [line.strip() for line in table.splitlines() if line.strip()]


device_plugin = Protocol(*DEVICE_PLUGIN)
pod_resources = Protocol(*POD_RESOURCES)
plugin_registration = Protocol(*PLUGIN_REGISTRATION)
resource_allocation = Protocol(*RESOURCE_ALLOCATION)
