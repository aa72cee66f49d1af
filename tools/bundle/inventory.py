"""What a bundle is made of: the SBOM (CycloneDX 1.6) and the list of licences.

Components are the wheels and the npm packages that the console's files contain. Time and serial
number follow from the content, so that two builds write the same bytes.
"""

from __future__ import annotations

import base64
import email
import json
import uuid
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from typing import Any, Final

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: Of the serial numbers; any constant does.
_NAMESPACE: Final = uuid.UUID("5f6b9f26-0b68-4c5e-9c37-3d1a2f0e6a11")
_UNKNOWN: Final = "--"
#: Characters above which the field `License` of old wheels is the text and not the name.
_LONGEST_NAME: Final = 80


@dataclass(frozen=True)
class Package:
    """A package in the bundle.

    Attributes:
        kind: `pypi` or `npm`, as in package URLs.
        licence: An SPDX expression or a name; `--` where the package does not say.
        digest: Algorithm and hexadecimal digest; None where nothing is known.
        needs: Names of packages that it needs, canonical.
        note: The file in the bundle.
    """

    kind: str
    name: str
    version: str
    licence: str
    digest: tuple[str, str] | None
    needs: tuple[str, ...] = ()
    note: str = ""


def read_wheels(wheels: Iterable[Path], sums: dict[str, str]) -> list[Package]:
    """Describe wheels by their own metadata."""
    found = []
    for path in wheels:
        with zipfile.ZipFile(path) as packed:
            names = [one for one in packed.namelist() if one.endswith(".dist-info/METADATA")]
            said = email.message_from_bytes(packed.read(names[0]))
        needs = set()
        for requirement in said.get_all("Requires-Dist", ()):
            needs.add(canonicalize_name(Requirement(requirement).name))
        found.append(
            Package(
                kind="pypi",
                name=canonicalize_name(str(said["Name"])),
                version=str(said["Version"]),
                licence=_find_licence(said),
                digest=("SHA-256", sums[path.name]),
                needs=tuple(sorted(needs)),
                note=path.name,
            )
        )
    return found


def _find_licence(said: Message) -> str:
    expression = said.get("License-Expression")
    if expression:
        return str(expression)
    classified = []
    for classifier in said.get_all("Classifier", ()):
        if classifier.startswith("License :: "):
            classified.append(classifier.rpartition(" :: ")[2])
    name = str(said.get("License") or "").strip()
    if name and len(name) <= _LONGEST_NAME and "\n" not in name:
        return name
    return " / ".join(classified) or _UNKNOWN


def read_console_packages(lock: Path) -> list[Package]:
    """Describe the npm packages of the console's files, not those that only build them."""
    found = []
    for place, one in json.loads(lock.read_text(encoding="utf-8"))["packages"].items():
        if not place or one.get("dev") or one.get("devOptional"):
            continue
        digest = None
        if str(one.get("integrity", "")).startswith("sha512-"):
            digest = ("SHA-512", base64.b64decode(one["integrity"][7:]).hex())
        found.append(
            Package(
                kind="npm",
                name=place.rpartition("node_modules/")[2],
                version=one["version"],
                licence=str(one.get("license", _UNKNOWN)),
                digest=digest,
                note="in the console's files",
            )
        )
    return sorted(found, key=lambda one: (one.name, one.version))


def write_sbom(packages: Sequence[Package], version: str, epoch: int) -> str:
    """Return the SBOM as JSON."""
    product = Component(
        name="gpupool-bundle", version=version, type=ComponentType.APPLICATION, bom_ref="bundle"
    )
    components = {}
    by_name: dict[str, list[Component]] = {}
    for package in packages:
        component = _make_component(package)
        components[component.bom_ref.value] = component
        if package.kind == "pypi":
            by_name.setdefault(package.name, []).append(component)
    bom = Bom(components=components.values())
    bom.metadata = BomMetaData(component=product, timestamp=datetime.fromtimestamp(epoch, UTC))
    content = "\n".join(sorted(str(reference) for reference in components))
    bom.serial_number = uuid.uuid5(_NAMESPACE, f"{version} {epoch}\n{content}")
    bom.register_dependency(product, components.values())
    for package in packages:
        needed: list[Component] = []
        for name in package.needs:
            needed += by_name.get(name, ())
        bom.register_dependency(components[_make_reference(package)], needed)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    return json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"


def _make_reference(package: Package) -> str:
    return f"{package.kind}:{package.name}@{package.version}#{package.note}"


def _make_component(package: Package) -> Component:
    namespace, _, name = package.name.rpartition("/")
    hashes = []
    if package.digest is not None:
        algorithm, digest = package.digest
        hashes.append(HashType(alg=HashAlgorithm(algorithm), content=digest))
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=_make_reference(package),
        purl=PackageURL(package.kind, namespace or None, name, package.version),
        hashes=hashes,
        licenses=[] if package.licence == _UNKNOWN else [DisjunctiveLicense(name=package.licence)],
        properties=[Property(name="gpupool:file", value=package.note)],
    )


def write_licences(packages: Sequence[Package]) -> str:
    """Return the list of licences, in Markdown."""
    rows = {(one.kind, one.name, one.version, one.licence) for one in packages}
    lines = [
        "# Licences of what this bundle contains",
        "",
        "As the packages themselves say; `--`: a package does not say. The texts are in the wheels, below `dist-info`;",
        "those of npm packages are in their sources.",
        "",
        "| package | version | from | licence |",
        "|---|---|---|---|",
    ]
    for kind, name, version, licence in sorted(rows):
        lines.append(f"| {name} | {version} | {kind} | {licence.replace('|', '/')} |")
    return "\n".join([*lines, ""])


def make_document(content: Any) -> str:
    """Return JSON with sorted keys."""
    return json.dumps(content, indent=1, sort_keys=True) + "\n"
