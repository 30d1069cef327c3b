"""Users' data files: tables, svmlight, numpy and parquet; which are read whole, and how."""

from momentron.data.files._common import DataFile
from momentron.data.files.options import TableOptions
from momentron.data.files.readers import is_path, read_data, read_frame, read_rows, read_whole

__all__ = [
    "DataFile",
    "TableOptions",
    "is_path",
    "read_data",
    "read_frame",
    "read_rows",
    "read_whole",
]
