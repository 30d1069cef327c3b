"""Users' data files: tables, svmlight, numpy and parquet; which are read whole, and how."""

from momentron.data.files.readers import read_data, read_frame, read_rows
from momentron.data.files.table import FeatureColumns, Table, TableOptions

__all__ = [
    "FeatureColumns",
    "Table",
    "TableOptions",
    "read_data",
    "read_frame",
    "read_rows",
]
