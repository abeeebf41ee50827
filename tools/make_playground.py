"""Builds the page that opens dropped models: a folder of static files for any web server.

    python tools/make_playground.py [--out FOLDER] [--docs ADDRESS]

The page runs this package with Pyodide, whose files lie next to the page: see `playground_python.py`.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from playground_examples import EXAMPLES, write_examples
from playground_python import make_python

ROOT = Path(__file__).resolve().parents[1]
FRONTEND = ROOT / "frontend"
#: A date of files in archives, so that equal sources give equal archives.
DATE = (2020, 1, 1, 0, 0, 0)

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="description" content="Drop a Core ML model: where it would run on Apple chips, and why.">
<link rel="icon" href="data:,">
<title>coremlscope: where does this Core ML model run?</title>
<link rel="stylesheet" href="{style}">
</head>
<body>
<noscript>This page needs JavaScript.</noscript>
<div id="app"></div>
<script type="application/json" id="manifest">{manifest}</script>
<script src="{script}"></script>
</body>
</html>
"""


def main() -> None:
    """Builds the playground."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "playground", help="the folder to write")
    parser.add_argument("--docs", default="", help="the address of the documentation, which links begin with")
    arguments = parser.parse_args()
    try:
        python = make_python()
    except LookupError as error:
        sys.exit(f"the Python of the playground cannot be made here: {error}")
    lock = json.loads(python.read_text(encoding="utf-8"))
    out: Path = arguments.out.resolve()  # Vite runs in another folder
    if out.exists():
        shutil.rmtree(out)
    build_front_end(out)
    package = out / "coremlscope.zip"
    write_package(package)
    names = [entry["name"] for entry in lock["files"]]
    (out / "python").mkdir()
    placed = {name: Path(shutil.copy(python.parent / name, out / "python" / name)) for name in names}
    compile_sources(out / "python", lock["loader"], [*(placed[name] for name in lock["packages"]), package])
    files = [{**listed(path, out), "name": name} for name, path in placed.items()]
    examples = write_examples(out / "examples")
    local = [out / "python-worker.js", out / "playground.js", out / "report.png", package, *examples]
    manifest = {
        "files": [*files, *(listed(path, out) for path in local)],
        "loader": lock["loader"],
        "module": lock["module"],
        "packages": [*lock["packages"], package.name],
        "examples": EXAMPLES,
        "docs": arguments.docs,
    }
    version = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()[:12]
    write_page(out, {"version": version, **manifest})
    total = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {total / 1e6:.1f} MB; serve it with `python -m http.server -d {out}`")


def build_front_end(out: Path) -> None:
    """Bundles the page's script and style sheet, and copies those of its workers."""
    vite = FRONTEND / "node_modules" / ".bin" / "vite"
    command = [
        str(vite),
        "build",
        "--config",
        "vite.playground.config.ts",
        "--logLevel",
        "warn",
        "--outDir",
        str(out),
    ]
    subprocess.run([*command, "--emptyOutDir"], cwd=FRONTEND, check=True)
    for name in ("python-worker.js", "offline.js"):
        shutil.copy(FRONTEND / "playground" / name, out / name)
    shutil.copy(ROOT / "docs" / "images" / "report.png", out / "report.png")


def compile_sources(python: Path, loader: str, archives: list[Path]) -> None:
    """Replaces the sources in archives by bytecode, so that no visitor waits for a compiler."""
    script = FRONTEND / "playground" / "compile.mjs"
    subprocess.run(["node", str(script), str(python), loader, *map(str, archives)], check=True)


def write_package(path: Path) -> None:
    """Writes this package, without what only pages that Python writes contain."""
    source = ROOT / "src"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(source.rglob("*")):
            inside = file.relative_to(source)
            if file.is_dir() or {"__pycache__", "bundle"} & set(inside.parts):
                continue
            archive.writestr(
                zipfile.ZipInfo(inside.as_posix(), DATE), file.read_bytes(), zipfile.ZIP_DEFLATED
            )


def listed(path: Path, out: Path) -> dict[str, Any]:
    """Describes a file next to the page."""
    content = path.read_bytes()
    integrity = "sha256-" + base64.b64encode(hashlib.sha256(content).digest()).decode("ascii")
    name = path.relative_to(out).as_posix()
    return {"name": name, "url": addressed(path, out), "bytes": len(content), "integrity": integrity}


def addressed(path: Path, out: Path) -> str:
    """Returns the address of a file, which changes with its content: browsers and servers keep old ones."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{path.relative_to(out).as_posix()}?{digest[:12]}"


def write_page(out: Path, manifest: dict[str, Any]) -> None:
    """Writes the page, which may load its own files, and nothing else."""
    policy = [
        "default-src 'none'",
        "script-src 'self' blob: 'wasm-unsafe-eval'",
        "worker-src 'self' blob:",
        "style-src 'self'",
        "img-src data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    text = json.dumps(manifest, separators=(",", ":")).replace("<", "\\u003c")
    style, script = (addressed(out / f"playground.{suffix}", out) for suffix in ("css", "js"))
    page = PAGE.format(policy="; ".join(policy), manifest=text, style=style, script=script)
    (out / "index.html").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
