"""Files read and written so that nobody else can be in between.

What is read is a regular file: never a pipe or a device, on which a read may wait for ever. What is
written appears at once and whole under its name: it is filled under a random name that did not
exist before, in the same folder, and then moved. Links are not followed on the way out.
"""

import bz2
import gzip
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from momentron.errors import InputError, one_line

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PRIVATE = 0o600
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_CREATE = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)

Pathname = str | os.PathLike[str]


def cache_dir() -> Path:
    """Return the folder for downloads (it need not exist)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "momentron"


def reason(error: BaseException) -> str:
    """Why the system refused, without the path that the message around it names already."""
    return one_line(getattr(error, "strerror", None) or error)


def require_regular(found: os.stat_result, path: Pathname) -> None:
    """Refuse a folder, a pipe or a device."""
    if not stat.S_ISREG(found.st_mode):
        kind = "directory" if stat.S_ISDIR(found.st_mode) else "pipe, a socket or a device"
        raise InputError(f"{one_line(path, 120)} is a {kind}, not a regular file; name a file")


def require_file(path: Pathname) -> None:
    """Refuse what is not a regular file before it is opened: a pipe would block for ever."""
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        raise InputError(f"{one_line(path, 120)} does not exist; check the path") from None
    except (OSError, ValueError) as error:  # a folder on the way that may not be entered
        raise InputError(f"{one_line(path, 120)} cannot be reached: {reason(error)}") from error
    require_regular(found, path)


@contextmanager
def naming(path: Any) -> Iterator[None]:
    """Put the name of a file before what is wrong with it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{one_line(path, 120)} {error}") from error.__cause__


def unpacked(path: Path) -> bytes:
    """The content of a file, decompressed by its suffix."""
    content = path.read_bytes()
    unpack = {".gz": gzip.decompress, ".bz2": bz2.decompress}.get(path.suffix.lower())
    return unpack(content) if unpack and content else content


def open_regular(path: Pathname, *, follow_links: bool = True) -> IO[bytes]:
    """A regular file, open for reading; OSError if it cannot be opened.

    InputError if it is a pipe, a device or a folder; or a link, where links are not followed.
    """
    if not follow_links and Path(path).is_symlink():
        raise InputError(f"{path} is a link; name the file that it points to")
    descriptor = os.open(path, _READ | (0 if follow_links else _NO_LINKS))
    try:
        require_regular(os.fstat(descriptor), path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def require_writable(path: Pathname) -> None:
    """Refuse a path at which `write_atomically` would fail, before any work is done for it."""
    path = Path(path)
    try:
        if not path.absolute().parent.is_dir():
            raise InputError(
                f"the parent directory of {one_line(path, 120)} does not exist; create it first"
            )
        if path.is_symlink():
            raise InputError(f"{one_line(path, 120)} is a link; name the file that it points to")
        if path.exists():
            require_regular(path.stat(), path)
        descriptor, temporary = _create_beside(path, PRIVATE)
        os.close(descriptor)
        temporary.unlink()
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{one_line(path, 120)} cannot be written: {reason(error)}; name another path"
        ) from error


def write_atomically(
    path: Pathname, content: bytes | str | Callable[[IO[bytes]], object], mode: int = 0o666
) -> None:
    """Replace the file by one with this content, or with what a function writes to a stream.

    OSError if it cannot be written; the old file is then as it was, and nothing else is left.
    """
    path = Path(path)
    descriptor, temporary = _create_beside(path, mode)
    try:
        with os.fdopen(descriptor, "w+b") as stream:
            if isinstance(content, bytes | str):
                stream.write(content.encode() if isinstance(content, str) else content)
            else:
                content(stream)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:  # an interrupt must not leave half a file either
        temporary.unlink(missing_ok=True)
        raise


class Lock:
    """One process at a time works on a file; used as a context manager.

    A hidden, empty file next to it is locked, and then removed. The system frees the lock of a
    process that died. Where the file system has no locks, nothing is locked.
    """

    def __init__(self, path: Pathname) -> None:
        path = Path(path)
        self._path = path
        self._file = path.absolute().with_name(f".{path.name[:100]}.momentron-lock")
        # closed, and so unlocked, at the latest when nobody holds it: Ctrl-C may come at any line
        self._held: IO[bytes] | None = None

    def __enter__(self) -> None:
        while fcntl is not None and self._held is None:
            try:
                descriptor = os.open(self._file, _CREATE | _NO_LINKS | _READ, PRIVATE)
                file = os.fdopen(descriptor, "ab", buffering=0)
            except OSError as error:
                raise InputError(f"{self._path} cannot be locked: {reason(error)}") from error
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                raise InputError(
                    f"another run is writing {self._path}; wait until it ends, or name another path"
                ) from None
            except OSError:
                pass  # there are no locks on this file system
            if os.fstat(file.fileno()).st_nlink:
                self._held = file
            else:
                file.close()  # whoever held it has removed the file since it was opened here

    def __exit__(self, *error: object) -> None:
        if self._held is None:
            return
        try:
            if os.fstat(self._held.fileno()).st_size == 0:  # else somebody's file of that name
                self._file.unlink(missing_ok=True)
        finally:
            self._held.close()
            self._held = None


def _create_beside(path: Path, mode: int) -> tuple[int, Path]:
    """A new, empty file of a random name in the folder of a path."""
    temporary = path.absolute().with_name(f".momentron-{secrets.token_hex(8)}.part")
    return os.open(temporary, _CREATE | _NO_LINKS | os.O_EXCL, mode), temporary
