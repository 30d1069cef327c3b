"""Users' data files: tables, svmlight, numpy and parquet; which are read whole, and how."""

from momentron.datafiles._common import DataFile
from momentron.datafiles.frames import read_frame
from momentron.datafiles.options import TableOptions
from momentron.datafiles.paths import is_path, is_read_whole, read_whole
from momentron.datafiles.readers import read_data

__all__ = [
    "DataFile",
    "TableOptions",
    "is_path",
    "is_read_whole",
    "read_data",
    "read_frame",
    "read_whole",
]
