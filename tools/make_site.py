"""Builds the documentation as a site, into site/: gathers the pages, then runs MkDocs in strict mode.

The pages keep their places relative to each other, so a link works in the repository and on the
site. Needs the dependency group `docs` (`make site`). Where npm is installed, Mermaid becomes part
of the site, and diagrams are drawn without a network; elsewhere browsers load it from unpkg.com.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
GATHERED = ROOT / "build" / "site-pages"
#: The version of Mermaid that Material for MkDocs 9 asks for is 11; the sum is of its file below.
MERMAID = "mermaid@11.16.0"
MERMAID_SHA256 = "74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b"
MERMAID_FILE = ROOT / ".tools" / "mermaid-11.16.0.min.js"
#: Folders whose pages are part of the site.
FOLDERS = ("docs", "bench")
KINDS = (".md", ".json", ".svg", ".png", ".yaml", ".html")


def pages() -> list[Path]:
    """Every file of the site, as the repository has it."""
    found = list(ROOT.glob("*.md"))
    for folder in FOLDERS:
        found.extend(file for file in (ROOT / folder).rglob("*") if file.suffix in KINDS)
    return sorted(found)


def gather() -> None:
    """Copy the pages into the folder that MkDocs reads."""
    shutil.rmtree(GATHERED, ignore_errors=True)
    for page in pages():
        copy = GATHERED / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, copy)


def fetch_mermaid() -> bool:
    """Have npm fetch Mermaid once, and check its sum. False where there is no npm or no network."""
    if MERMAID_FILE.exists():
        return True
    npm = shutil.which("npm")
    if npm is None:
        return False
    MERMAID_FILE.parent.mkdir(exist_ok=True)
    done = subprocess.run(
        [npm, "pack", "--silent", "--pack-destination", str(MERMAID_FILE.parent), MERMAID],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return False
    archive = MERMAID_FILE.parent / done.stdout.strip().splitlines()[-1]
    with tarfile.open(archive) as packed:
        member = packed.extractfile("package/dist/mermaid.min.js")
        script = member.read() if member else b""
    archive.unlink()
    if hashlib.sha256(script).hexdigest() != MERMAID_SHA256:
        sys.exit(f"make site: {MERMAID} has another sum than {MERMAID_SHA256}")
    MERMAID_FILE.write_bytes(script)
    return True


def add_mermaid() -> None:
    """Put Mermaid where mkdocs.yml names it; an empty script leaves it to the theme."""
    script = GATHERED / "assets" / "mermaid.min.js"
    script.parent.mkdir(parents=True, exist_ok=True)
    if fetch_mermaid():
        shutil.copyfile(MERMAID_FILE, script)
    else:
        script.write_text("")
        print("make site: no npm or no network; browsers will load Mermaid from unpkg.com")


if __name__ == "__main__":
    gather()
    add_mermaid()
    build = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    sys.exit(subprocess.run([*build, *sys.argv[1:]], cwd=ROOT, check=False).returncode)
