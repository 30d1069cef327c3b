"""Downloads: checked, and written whole under their names in the cache."""

from __future__ import annotations

import hashlib
import http.client
import io
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from momentron.data.safefiles import write_atomically

TIMEOUT = 60.0
"""Seconds without an answer after which a download gives up."""

FAILURES = (OSError, ValueError, http.client.HTTPException)
"""What a download can raise: URLError and timeouts are OSErrors, a cut transfer is not."""

CIFAR10_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR10_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
_CIFAR10_MEMBERS = (  # the first training batch, which marks the set as complete, comes last
    "batches.meta.txt",
    "test_batch.bin",
    *(f"data_batch_{i}.bin" for i in range(5, 0, -1)),
)


@dataclass(frozen=True)
class Remote:
    """A file: its mirrors in order of preference, its place in the cache, its MD5 if known."""

    urls: tuple[str, ...]
    file: str
    md5: str | None = None


def fetch(remote: Remote, cache: Path) -> None:
    """Download one file into the cache, unless it is there already.

    Raises
    ------
    OSError, ValueError, http.client.HTTPException
        The last mirror's failure; nothing is left behind under the final name.
    """
    if not (cache / remote.file).exists():
        _write(cache / remote.file, _download(remote.urls, remote.md5))


def fetch_cifar10(cache: Path) -> None:
    """Download the CIFAR-10 archive and keep its binary batches.

    Only known base names are written, so a member's own path cannot lead elsewhere.
    """
    content = _download((CIFAR10_URL,), CIFAR10_MD5)
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            members = {Path(m.name).name: m for m in tar.getmembers() if m.isfile()}
            for name in _CIFAR10_MEMBERS:
                member = tar.extractfile(members[name]) if name in members else None
                if member is None:
                    raise ValueError(f"{CIFAR10_URL} lacks {name}")
                _write(cache / "cifar10" / name, member.read())
    except tarfile.TarError as error:
        raise ValueError(f"{CIFAR10_URL} is not a readable archive ({error})") from error


def _download(urls: tuple[str, ...], md5: str | None) -> bytes:
    """The content of the first mirror that has it, whole and with the right MD5."""
    for i, url in enumerate(urls):
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                content: bytes = answer.read()  # which raises where less came than announced
            found = hashlib.md5(content, usedforsecurity=False).hexdigest()
            if md5 not in (None, found):
                raise ValueError(f"{url} has MD5 {found}, not {md5}")
            return content
        except FAILURES:
            if i == len(urls) - 1:
                raise
    raise ValueError("there is no address to download from")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
