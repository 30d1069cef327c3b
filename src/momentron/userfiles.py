"""Where files of the user's are kept."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the folder for downloads (it need not exist)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "momentron"
