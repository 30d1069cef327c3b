"""Downloads: checked, and written whole under their names in the cache."""

from __future__ import annotations

import hashlib
import http.client
import io
import tarfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from momentron.data.safefiles import write_atomically

TIMEOUT = 60.0  # seconds without an answer after which a download gives up
FAILURES = (OSError, ValueError, http.client.HTTPException, tarfile.TarError)
MD5 = {  # of the files for which it is known
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
}


def fetch(urls: Sequence[str], path: Path) -> None:
    """Download a file from the first mirror that has it, or an archive into a folder.

    Raises
    ------
    OSError, ValueError, http.client.HTTPException, tarfile.TarError
        The last mirror's failure; nothing is left behind under the final name.
    """
    if path.is_file():
        return
    content = _download(urls)
    if not urls[0].endswith(".tar.gz"):
        _write(path, content)
        return
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        # by base name, so that a member's own path cannot lead elsewhere
        found = {Path(member.name).name: member for member in tar.getmembers() if member.isfile()}
        for name in sorted(found, reverse=True):  # data_batch_1 marks the set as complete
            member = tar.extractfile(found[name])
            assert member is not None, "it is a file"
            _write(path / name, member.read())


def _download(urls: Sequence[str]) -> bytes:
    """The content of the first mirror that has it, whole and with the right MD5."""
    *mirrors, last = urls
    for url in mirrors:
        try:
            return _download((url,))
        except FAILURES:
            continue
    with urllib.request.urlopen(last, timeout=TIMEOUT) as answer:
        content: bytes = answer.read()  # which raises where less came than announced
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    expected = MD5.get(last.rsplit("/", 1)[1], found)
    if found != expected:
        raise ValueError(f"{last} has MD5 {found}, not {expected}")
    return content


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
