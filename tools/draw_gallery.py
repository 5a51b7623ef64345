"""Run the code of pages and keep the pictures that it makes, small, beside them.

PYTHONPATH=src python tools/draw_gallery.py [figures.md tutorials/icu-death.md ...]
"""

import contextlib
import doctest
import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# Where each page's pictures go.
PAGES = {
    "figures.md": "figures",
    "tutorials/icu-death.md": "tutorials",
    "tutorials/own-storage.md": "tutorials",
}
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
WIDTH = 760
MOST_BYTES = 80_000


def main() -> None:
    for page in sys.argv[1:] or PAGES:
        draw(DOCS / page, DOCS / "images" / PAGES[page])


def draw(page: Path, pictures: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        namespace: dict[str, object] = {"__name__": "__main__"}
        for kind, code in BLOCK.findall(page.read_text(encoding="utf-8")):
            if kind == "python":
                exec(compile(source(code), str(page), "exec"), namespace)
            else:
                run_commands(code)
        pictures.mkdir(parents=True, exist_ok=True)
        for drawn in sorted(Path(folder).glob("*.png")):
            content = small(drawn)
            if len(content) > MOST_BYTES:
                raise SystemExit(f"{drawn.name}: {len(content):,} bytes, more than {MOST_BYTES:,}")
            (pictures / drawn.name).write_bytes(content)
            print(f"{drawn.name}: {len(content):,} bytes")


def source(block: str) -> str:
    """A block's code, without prompts and what they print."""
    examples = doctest.DocTestParser().get_examples(block)
    return "".join(example.source for example in examples) or block


def run_commands(block: str) -> None:
    start = "import sys; from counterplan.cli import main; sys.exit(main())"
    for line in re.findall(r"^\$ counterplan (.*)$", block, flags=re.MULTILINE):
        subprocess.run([sys.executable, "-c", start, *line.split()], check=True)


def small(path: Path) -> bytes:
    """As wide as a column of the page, in few colours, which are kept as they are."""
    with Image.open(path) as picture:
        height = round(picture.height * WIDTH / picture.width)
        shrunk = picture.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    shrunk.quantize(method=Image.Quantize.FASTOCTREE).save(file, format="PNG", optimize=True)
    return file.getvalue()


if __name__ == "__main__":
    main()
