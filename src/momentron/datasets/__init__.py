"""Data sets: synthetic problems whose best margin is known, and loaders for real ones.

Importing this package loads nothing that `max_margin` does not need, and never touches the network.
"""

from momentron.datasets.loaders import DATASETS, TABLES, load, table_path
from momentron.datasets.synthetic import Synthetic, make_separable

__all__ = ["DATASETS", "TABLES", "Synthetic", "load", "make_separable", "table_path"]
