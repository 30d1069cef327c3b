"""A folder with the binary parts of a text, believed only where this user's momentron wrote it.

The header holds the SHA-256 of the text and of every part, signed with the user's key
(`momentron.userfiles`). A folder that came with the data, from another user or another machine, or
that was changed by hand is therefore never read; and one that is not signed is never removed.
"""

import hashlib
import hmac
import json
import os
import secrets
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

from momentron.clock import require_time
from momentron.errors import InputError
from momentron.safefiles import BLOCK, Lock, create_private, open_regular, reason
from momentron.userfiles import is_own, user_key

VERSION = 2
PARTS = ("values.bin", "indices.bin", "indptr.npy", "labels.npy")
HEADER = "header.json"
HEADER_LIMIT = 4096
PATIENCE = 60.0  # seconds to wait for another process that puts its conversion in place


class NotKept(Exception):
    """The folder could not take its place; says why."""


@dataclass(frozen=True)
class Header:
    """What a conversion found, and what it wrote."""

    text: str
    width: int
    base: int
    parts: dict[str, tuple[int, str]]
    version: int = VERSION

    def sign(self, key: bytes) -> bytes:
        """The header as a file."""
        content = json.dumps(asdict(self), sort_keys=True).encode()
        return content + b"\n" + _signature(content, key)


def digest_of_file(path: Path, *, follow_links: bool = False) -> tuple[int, str]:
    """The size of a regular file and its SHA-256, in one pass."""
    total, size = hashlib.sha256(), 0
    with open_regular(path, follow_links=follow_links) as file:
        while block := file.read(BLOCK):
            require_time()
            total.update(block)
            size += len(block)
    return size, total.hexdigest()


def measured(folder: Path) -> dict[str, tuple[int, str]]:
    """Size and hash of every part."""
    return {name: digest_of_file(folder / name) for name in PARTS}


def read_header(folder: Path) -> Header | None:
    """The header of a folder, if this user's momentron signed it."""
    key = user_key()
    if key is None or not _is_own_folder(folder):
        return None
    try:
        with open_regular(folder / HEADER, follow_links=False) as file:
            content, _, signature = file.read(HEADER_LIMIT).partition(b"\n")
    except (OSError, InputError):
        return None
    if not hmac.compare_digest(signature, _signature(content, key)):
        return None
    found = json.loads(content)  # our own words, as the signature says
    if found.get("version") != VERSION:
        return None
    found["parts"] = {name: tuple(part) for name, part in found["parts"].items()}
    return Header(**found)


def is_whole(folder: Path, header: Header) -> bool:
    """Whether every part is a regular file of the user's, and as it was written."""
    try:
        for name in PARTS:
            found = (folder / name).lstat()
            if not (stat.S_ISREG(found.st_mode) and is_own(found)):
                return False
            if found.st_size != header.parts[name][0]:
                return False
        return measured(folder) == header.parts
    except (OSError, InputError):
        return False


def keep(fresh: Path, folder: Path, header: Header) -> None:
    """Move a folder that is complete to its place, where it replaces an older one of ours.

    Where another process has put the same conversion there meanwhile, that one stays, and the fresh
    one is removed.

    Raises
    ------
    NotKept
        If something else is there, or nothing can be written there.
    """
    key = user_key()
    if key is None:
        raise NotKept("there is no private folder to keep the key of conversions in")
    try:
        with create_private(fresh / HEADER) as file:
            file.write(header.sign(key))
        with Lock(folder, patience=PATIENCE):
            _replace(fresh, folder, header)
    except InputError as error:
        raise NotKept(str(error)) from error
    except OSError as error:
        raise NotKept(f"{folder} cannot be written: {reason(error)}") from error


def _replace(fresh: Path, folder: Path, header: Header) -> None:
    if not os.path.lexists(folder):
        fresh.rename(folder)
        return
    present = read_header(folder)
    if present is None:
        raise NotKept(f"{folder} was not written by this user's momentron; move it away")
    if present.text == header.text and is_whole(folder, present):
        remove(fresh)
        return
    old = folder.with_name(f".momentron-{secrets.token_hex(8)}.old")
    folder.rename(old)
    fresh.rename(folder)
    remove(old)


def remove(folder: Path) -> None:
    """Delete a folder of ours: our own files, and then the folder if nothing else is in it."""
    for name in (*PARTS, HEADER):
        (folder / name).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        return  # it is gone, or somebody has put something there


def _signature(content: bytes, key: bytes) -> bytes:
    return hmac.digest(key, b"momentron conversion\n" + content, "sha256").hex().encode()


def _is_own_folder(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and is_own(found)
