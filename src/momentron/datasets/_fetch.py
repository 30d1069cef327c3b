"""Downloads: to a temporary name beside the target, checked, then renamed."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import tarfile
import urllib.request
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from momentron.safefiles import write_atomically

TIMEOUT = 60.0
"""Seconds without an answer after which a download gives up."""

FAILURES = (OSError, ValueError, http.client.HTTPException)
"""What a download can raise: URLError and timeouts are OSErrors, a cut transfer is not."""

CIFAR10_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR10_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
_CIFAR10_MEMBERS = (
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


def fetch(remote: Remote, cache: Path) -> Path:
    """Download one file into the cache, unless it is there already.

    Raises
    ------
    OSError, ValueError, http.client.HTTPException
        The last mirror's failure; nothing is left behind under the final name.
    """
    target = cache / remote.file
    if target.exists():
        return target
    for i, url in enumerate(remote.urls):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, partial(_copy, url, remote.md5))
            break
        except FAILURES:
            if i == len(remote.urls) - 1:
                raise
    return target


def fetch_cifar10(cache: Path) -> None:
    """Download the CIFAR-10 archive and keep its binary batches."""
    archive = fetch(Remote((CIFAR10_URL,), "cifar10/archive.tar.gz", CIFAR10_MD5), cache)
    try:
        unpack_cifar10(archive)
    except tarfile.TarError as error:
        raise ValueError(f"{archive} is not a readable archive ({error})") from error
    finally:
        archive.unlink()


def unpack_cifar10(archive: Path) -> None:
    """Copy the known members of the archive to its folder.

    Only known base names are written, so a member's own path cannot lead elsewhere. The first
    training batch, which marks the set as complete, comes last.
    """
    with tarfile.open(archive) as tar:
        members = {Path(m.name).name: m for m in tar.getmembers() if m.isfile()}
        for name in _CIFAR10_MEMBERS:
            source = tar.extractfile(members[name]) if name in members else None
            if source is None:
                raise ValueError(f"{archive} lacks {name}")
            write_atomically(archive.parent / name, partial(shutil.copyfileobj, source))


def _copy(url: str, md5: str | None, stream: IO[bytes]) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    size = 0
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
        announced = answer.headers.get("Content-Length")
        while block := answer.read(1 << 20):
            digest.update(block)
            stream.write(block)
            size += len(block)
    if announced is not None and size != int(announced):
        raise ValueError(f"{url} ended after {size} of {announced} bytes")
    if md5 is not None and digest.hexdigest() != md5:
        raise ValueError(f"{url} has MD5 {digest.hexdigest()}, not {md5}")
