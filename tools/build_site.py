"""Write the tuner as a static site: the page, Python for the browser, and the rules unchanged.

    python tools/build_site.py DIR

The page must have been built (`make page`). The modules that the rules import are found by running
the rules, so there is no list of modules to keep up to date.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "packages" / "mrtuner" / "src" / "mrtuner" / "web" / "static"
PYODIDE = ROOT / "packages" / "mrtuner" / "ui" / "node_modules" / "pyodide"
_RUNTIME = (
    "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip"
)  # fmt: skip
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'"
)
#: A program that prints the file of each module that an answer in every format loads.
_LOADED = """
import json, sys
from mrtuner.web.tuner import answer_json
told = json.loads(answer_json('{"memory": "64GB", "cpus": "8", "huge_pages": "yes"}'))
assert "error" not in told, told
json.loads(answer_json('{"memory": "1GB", "cpus": "1", "connections": "9999"}'))
wanted = {name: module.__file__ for name, module in list(sys.modules.items())
          if name.split(".")[0] in ("mrtuner", "yaml") and getattr(module, "__file__", None)}
print(json.dumps(wanted))
"""


def main(target: Path) -> None:
    """Write the site."""
    target.mkdir(parents=True, exist_ok=True)
    (target / "pyodide").mkdir(exist_ok=True)
    for name in _RUNTIME:
        shutil.copy(PYODIDE / name, target / "pyodide" / name)
    for name in ("assets", "icon.svg"):
        copy = shutil.copytree if (STATIC / name).is_dir() else shutil.copy
        shutil.rmtree(target / name, ignore_errors=True)
        copy(STATIC / name, target / name)
    archive(target / "mrtuner.zip")
    page = (STATIC / "tuner.html").read_text(encoding="utf-8")
    head = f'<head>\n    <meta http-equiv="Content-Security-Policy" content="{_POLICY}" />'
    (target / "index.html").write_text(page.replace("<head>", head, 1), encoding="utf-8")
    (target / "offline.js").write_text(offline(target), encoding="utf-8")


def archive(path: Path) -> None:
    """Write the archive of the modules and tables; the same sources give the same bytes."""
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=9) as archived:
        for name, file in sorted(parts()):
            entry = ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = ZIP_DEFLATED
            archived.writestr(entry, file.read_bytes())


def parts() -> Iterator[tuple[str, Path]]:
    """Yield the name in the archive and the file of each module and each catalogue table."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED], check=True, capture_output=True, text=True
    )
    for module, file in json.loads(done.stdout).items():
        path = Path(file)
        if path.suffix != ".py":
            continue  # PyYAML works without its compiled module
        place = module.replace(".", "/")
        yield (f"{place}/__init__.py" if path.name == "__init__.py" else f"{place}.py"), path
    for table in (ROOT / "packages" / "mrtuner" / "src" / "mrtuner" / "catalog").glob("*.json"):
        yield f"mrtuner/catalog/{table.name}", table


def offline(site: Path) -> str:
    """A service worker that keeps the site's files, so that the page opens without a network."""
    names = sorted(
        str(path.relative_to(site))
        for path in site.rglob("*")
        if path.is_file() and path.name != "offline.js"
    )
    digest = hashlib.sha256()
    for name in names:
        digest.update((site / name).read_bytes())
    files = json.dumps(["./", *(name for name in names if name != "index.html")])
    return f"""\
const KEPT = "mrtuner-{digest.hexdigest()[:16]}";
const FILES = {files};
self.addEventListener("install", (event) => {{
  const all = caches.open(KEPT).then((cache) => cache.addAll(FILES));
  event.waitUntil(all.then(() => self.skipWaiting()));
}});
self.addEventListener("activate", (event) => {{
  const old = (names) => names.filter((name) => name !== KEPT).map((name) => caches.delete(name));
  const gone = caches.keys().then((names) => Promise.all(old(names)));
  event.waitUntil(gone.then(() => self.clients.claim()));
}});
self.addEventListener("fetch", (event) => {{
  event.respondWith(caches.match(event.request).then((kept) => kept ?? fetch(event.request)));
}});
"""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
