"""Users' data files: tables, svmlight, numpy and parquet; which are read whole, and how."""

from momentron.data.files._common import DataFile, FeatureColumns, TableOptions
from momentron.data.files.readers import is_path, read_data, read_frame, read_rows

__all__ = [
    "DataFile",
    "FeatureColumns",
    "TableOptions",
    "is_path",
    "read_data",
    "read_frame",
    "read_rows",
]
