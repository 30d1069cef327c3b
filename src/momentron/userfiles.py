"""What belongs to the user and to nobody else: a folder for downloads, and a key."""

import os
import secrets
import stat
from pathlib import Path

from momentron.errors import InputError
from momentron.safefiles import PRIVATE, open_regular, write_atomically

KEY_BYTES = 32
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_dir() -> Path:
    """Return the folder for downloads (it need not exist)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "momentron"


def user_key() -> bytes | None:
    """A secret by which files that this user's momentron wrote are told from all others.

    Made when it is first asked for. None where there is no folder of the user's to keep it in, or
    where others could have read it.
    """
    try:
        path = cache_dir() / "key"
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create_key(path)
        with open_regular(path, follow_links=False) as file:
            found = os.fstat(file.fileno())
            key = file.read(KEY_BYTES + 1)
    except (OSError, InputError, RuntimeError):  # RuntimeError: a user without a home
        return None
    is_secret = is_own(found) and (os.name == "nt" or not found.st_mode & 0o077)
    return key if is_secret and len(key) == KEY_BYTES else None


def is_own(found: os.stat_result) -> bool:
    """Whether a file or folder is the user's, and no other user may write to it."""
    if os.name == "nt":  # where the folders of users are closed to others
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_MAY_WRITE


def _create_key(path: Path) -> None:
    """Write a new key, unless another process was faster."""
    fresh = path.with_name(f"key.{secrets.token_hex(8)}")
    write_atomically(fresh, secrets.token_bytes(KEY_BYTES), PRIVATE)
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink(missing_ok=True)
