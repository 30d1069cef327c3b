"""Data sets: synthetic problems whose best margin is known, and loaders for real ones.

Importing this package loads nothing that `max_margin` does not need, and never touches the network.
"""

from momentron.datasets.loaders import DATASETS, load
from momentron.datasets.synthetic import (
    Synthetic,
    make_nonseparable,
    make_separable,
    make_sparse_separable,
    make_touching,
)
from momentron.datasets.tables import TABLES, table_path

__all__ = [
    "DATASETS",
    "TABLES",
    "Synthetic",
    "load",
    "make_nonseparable",
    "make_separable",
    "make_sparse_separable",
    "make_touching",
    "table_path",
]
