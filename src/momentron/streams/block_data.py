"""Data that a command line names: a file, the memory it may take, and perhaps a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from momentron.arguments import parse_size
from momentron.streams.files import open_file
from momentron.streams.source import BLOCK_BYTES
from momentron.streams.stream import DiskStream, Stream

BLOCKS_IN_MEMORY = 40  # blocks, working set and what solves it, with room to spare


@dataclass(frozen=True)
class BlockData:
    """A file or folder to be read in blocks.

    Attributes
    ----------
    path : str
    target : str or None
        The label column, or a .npy file of labels.
    memory : str or None
        What the fit may take in this process, such as "1GB"; else blocks have their usual size.
    scheduler : str or None
        The address of a Dask scheduler whose workers read the file, and keep it.
    """

    path: str
    target: str | None
    memory: str | None
    scheduler: str | None

    @property
    def block_size(self) -> int:
        if self.memory is None:
            return BLOCK_BYTES
        return max(1, parse_size(self.memory, "memory") // BLOCKS_IN_MEMORY)

    @contextmanager
    def opened(self) -> Iterator[Stream]:
        """The stream of blocks, with a client of the cluster as long as it is needed."""
        if self.scheduler is None:
            yield DiskStream(open_file(self.path, self.target, self.block_size))
            return
        from momentron.streams.dask import DaskStream
        from momentron.streams.scheduler import connected

        with connected(self.scheduler) as client:  # before the file, which may take a conversion
            source = open_file(self.path, self.target, self.block_size)
            yield DaskStream.from_source(source, client)
