"""`momentron info`: what this installation is made of."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from joblib import cpu_count
from threadpoolctl import threadpool_info

from momentron.cli.output import say_facts, say_json
from momentron.data.safefiles import cache_dir
from momentron.datasets import DATASETS
from momentron.datasets.loaders import ENVIRONMENT

NEEDED = ("numpy", "scipy", "scikit-learn", "pandas", "python-flint")
OPTIONAL = ("matplotlib", "torch", "pyarrow", "dask")
OF_LIBRARY = ("internal_api", "version", "num_threads", "threading_layer", "architecture")


def info(as_json: bool) -> None:
    """Print what there is."""
    here, missing = versions(*NEEDED, *OPTIONAL), f"none ({ENVIRONMENT} is not set)"
    found: dict[str, Any] = {
        "versions": here,
        "missing": [name for name in OPTIONAL if name not in here],
        "platform": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "processors": cpu_count(),  # those that this process may use
        "long_double_bits": int(np.finfo(np.longdouble).nmant) + 1,
        "blas": [
            {name: library[name] for name in OF_LIBRARY if library.get(name)}
            for library in threadpool_info()
        ],
        "data_folder": os.environ.get(ENVIRONMENT) or None,
        "cache": str(cache_dir()),
        "datasets": list(DATASETS),
    }
    if as_json:
        say_json(found)
        return
    libraries = [", ".join(f"{key} {of[key]}" for key in of) for of in found["blas"]]
    facts = [
        *here.items(),
        ("not installed", ", ".join(found["missing"]) or "nothing"),
        ("platform", found["platform"]),
        ("processors", found["processors"]),
        ("long double", f"{found['long_double_bits']} bits of precision"),
        *(("library", words) for words in libraries),
        ("data folder", found["data_folder"] or missing),
        ("cache", found["cache"]),
        ("known datasets", ", ".join(found["datasets"])),
    ]
    say_facts("", facts)


def versions(*names: str) -> dict[str, str]:
    """The versions of momentron, of Python, and of the named packages that are installed."""
    found = {"momentron": version("momentron"), "python": platform.python_version()}
    for name in names or NEEDED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
