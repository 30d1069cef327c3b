"""After the build: every link, picture and anchor inside the site must exist."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sphinx.util import logging

logger = logging.getLogger(__name__)
ADDRESSES = {"href", "src"}


class Page(HTMLParser):
    """The addresses that a page points to, and the anchors that it offers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ADDRESSES:
                self.links.add(value)
            elif value and name == "id":
                self.anchors.add(value)


def broken_links(root: Path) -> list[str]:
    """One line for each address in the HTML files of a folder that leads nowhere."""
    files = [path for path in root.rglob("*.html") if "_static" not in path.parts]
    pages = {path.resolve(): Page(path.read_text("utf-8")) for path in files}
    broken = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue  # `sphinx -b linkcheck` asks the network
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            # viewcode's links back lead to the right page, but some to a wrong anchor
            knows = target in pages and "_modules" not in path.parts
            anchors = pages[target].anchors if knows else None
            is_missing = not target.is_file()
            if is_missing or (
                parts.fragment and anchors is not None and unquote(parts.fragment) not in anchors
            ):
                broken.append(f"{path.relative_to(root.resolve())}: {link}")
    return broken


def check(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        for line in broken_links(Path(app.outdir)):
            logger.warning("broken link in %s", line)


def setup(app: Any) -> dict[str, bool]:
    app.connect("build-finished", check, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
