"""`gpupool bundle`: check an archive for machines without a network."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import format_pairs, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, path_of

if TYPE_CHECKING:
    from gpupool.delivery.bundle import BundleReport


def register(parser: CommandParser) -> None:
    parser.about = """
    A bundle is one archive that installs gpupool on machines without a network: wheels, console, chart,
    documentation, SBOM. `make bundle` in a clone writes it; its install.sh installs it.
    """
    parser.examples = ["gpupool bundle verify gpupool-0.2.0-linux-x86_64.tar.zst --key maker.pub"]
    parser.add_verbs()
    verify = parser.add_verb("verify", "check every file's sum, and who made the bundle")
    verify.about = """
    Reads the archive without unpacking it. Every file must have the sum of SHA256SUMS, and no other file may be there.
    With --key the sums must be signed with that Ed25519 key (needs the program openssl, version 3). Get the key
    another way than the bundle. Exit code 1 and the names of the files where something is wrong.
    """
    verify.examples = [
        "gpupool bundle verify gpupool-0.2.0-linux-x86_64.tar.zst",
        "gpupool bundle verify gpupool-0.2.0-linux-x86_64.tar.zst --key maker.pub -o json",
    ]
    verify.add_argument(
        "file", metavar="FILE", type=path_of("FILE"), help="the archive, or its unpacked folder"
    )
    verify.add_argument(
        "--key", metavar="PUBLIC.pem", type=path_of("--key"), help="of the bundle's makers"
    )
    add_output(verify, OBJECT_FORMATS)


def run(options: argparse.Namespace, _context: CommandContext) -> int:
    from gpupool.delivery.bundle import verify_bundle

    key = Path(options.key) if options.key else None
    report = verify_bundle(Path(options.file), key)
    if options.output != "table":
        print_data(describe_bundle(report), options.output)
        return 0
    sys.stdout.write(format_bundle(report) + "\n")
    if report.key is None:
        print_notice("who made this bundle was not checked: --key PUBLIC.pem")
    return 0


def describe_bundle(report: BundleReport) -> dict[str, Any]:
    """Describe a bundle for programs."""
    return {
        "version": report.manifest["version"],
        "files": report.files,
        "signed": report.is_signed,
        "key": report.key,
        "manifest": report.manifest,
    }


def format_bundle(report: BundleReport) -> str:
    """Format a bundle for people: what it is, what it holds, what it lacks."""
    manifest = report.manifest
    signature = "there, not checked" if report.is_signed else "none"
    if report.key is not None:
        signature = f"of {report.key}"
    pairs = [
        ("version", str(manifest["version"])),
        ("machine", str(manifest.get("machine", "--"))),
        ("pythons", ", ".join(manifest.get("pythons", ())) or "--"),
        ("extras", ", ".join(manifest.get("extras", ())) or "none"),
        ("files", f"{report.files}, each with its sum"),
        ("signature", signature),
    ]
    for name, part in sorted(manifest["parts"].items()):
        pairs.append((name, "there" if part.get("present") else f"not there: {part.get('why')}"))
    return format_pairs(pairs)
