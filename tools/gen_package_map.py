"""Writes the package map into docs/architecture.md from the imports in the source.

The picture has the layers of `.importlinter`, one package per box and an arrow for each import that
no chain of other arrows implies. The table has what each package says of itself. `--check` only
compares.
"""

from __future__ import annotations

import ast
import configparser
import re
import sys
from pathlib import Path

from generated import ROOT, write_or_check

PAGE = ROOT / "docs" / "architecture.md"
SOURCE = ROOT / "src" / "gpupool"
BEGIN = "<!-- package map: made by `make docs`; change the code instead -->\n"
END = "<!-- end of package map -->"


def layers() -> list[list[str]]:
    """Packages by layer, top first, as the import contract lists them; none that is only planned."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    lines = contracts["importlinter:contract:layers"]["layers"].split("\n")
    rows = [re.findall(r"\w+", line) for line in lines]
    existing = [[name for name in row if (SOURCE / name).is_dir()] for row in rows]
    return [row for row in existing if row]


def imported_packages(package: str, known: set[str]) -> set[str]:
    """The other packages that a module of this one imports."""
    found: set[str] = set()
    for file in (SOURCE / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                found.update(_package_of(node.module))
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    found.update(_package_of(alias.name))
    return (found & known) - {package}


def _package_of(module: str) -> list[str]:
    parts = module.split(".")
    return parts[1:2] if parts[0] == "gpupool" else []


def reachable(imports: dict[str, set[str]], start: str) -> set[str]:
    """Every package that one imports, by whatever chain."""
    found: set[str] = set()
    remaining = list(imports[start])
    while remaining:
        package = remaining.pop()
        if package not in found:
            found.add(package)
            remaining.extend(imports[package])
    return found


def arrows(imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Imports that no chain of others implies."""
    kept: list[tuple[str, str]] = []
    for package, targets in imports.items():
        implied: set[str] = set()
        for target in targets:
            implied |= reachable(imports, target)
        kept.extend((package, target) for target in sorted(targets - implied))
    return kept


def purpose(folder: Path) -> str:
    """The first sentence of a package's docstring."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph)[0]


def subpackages(folder: Path) -> list[str]:
    """Names of the packages inside one."""
    return sorted(file.parent.name for file in folder.glob("*/__init__.py"))


def package_map() -> str:
    """The picture and the table."""
    rows = layers()
    names = [name for row in rows for name in row]
    known = set(names)
    imports = {name: imported_packages(name, known) for name in names}
    lines = ["```mermaid", "flowchart TD"]
    for number, row in enumerate(rows):
        if len(row) == 1:
            lines.append(f"    {row[0]}")
            continue
        lines.append(f"    subgraph layer{number}[ ]")
        lines.extend(f"        {name}" for name in row)
        lines.append("    end")
    lines.extend(f"    {package} --> {target}" for package, target in arrows(imports))
    lines += ["```", "", "| package | what it says of itself | inside |", "|---|---|---|"]
    for name in names:
        inside = ", ".join(f"`{inner}`" for inner in subpackages(SOURCE / name))
        lines.append(f"| `gpupool.{name}` | {purpose(SOURCE / name)} | {inside} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the map of today."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{package_map()}{END}{after}"


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}))
