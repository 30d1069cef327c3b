"""`momentron info`: what this installation is made of."""

import json
import os
import platform
from typing import Annotated, Any

import numpy as np
import typer

from momentron.cli.output import say
from momentron.cli.versions import NEEDED, OPTIONAL, blas_libraries, versions
from momentron.data.safefiles import cache_dir
from momentron.datasets import DATASETS
from momentron.datasets.loaders import ENVIRONMENT


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print versions, linear algebra libraries, threads and data folders, for bug reports."""
    found = gather()
    if as_json:
        print(json.dumps(found))
        return
    lines = [f"{name:<16}{version}" for name, version in found["versions"].items()]
    lines.append(f"{'not installed':<16}{', '.join(found['missing']) or 'nothing'}")
    lines.append(f"{'platform':<16}{found['platform']}")
    lines.append(f"{'processors':<16}{found['processors']}")
    lines.append(f"{'long double':<16}{found['long_double_bits']} bits of precision")
    for library in found["blas"]:
        words = ", ".join(f"{name} {value}" for name, value in library.items())
        lines.append(f"{'library':<16}{words}")
    lines.append(f"{'data folder':<16}{found['data_folder'] or f'none ({ENVIRONMENT} is not set)'}")
    lines.append(f"{'cache':<16}{found['cache']}")
    lines.append(f"{'known data sets':<16}{', '.join(found['datasets'])}")
    say(*lines)


def gather() -> dict[str, Any]:
    """Everything the command prints, as plain values."""
    here = versions(*NEEDED, *OPTIONAL)
    return {
        "versions": here,
        "missing": [name for name in OPTIONAL if name not in here],
        "platform": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "processors": _processors(),
        "long_double_bits": int(np.finfo(np.longdouble).nmant) + 1,
        "blas": blas_libraries(),
        "data_folder": os.environ.get(ENVIRONMENT) or None,
        "cache": str(cache_dir()),
        "datasets": list(DATASETS),
    }


def _processors() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
