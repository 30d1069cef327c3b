"""The way to a Dask scheduler: an address that is tried, and a client."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from momentron.streams.dask import PATIENCE, ClusterError, require_dask

GREETING = 5.0  # seconds for a scheduler to say who it is
LONGEST_GREETING = 2**20  # bytes; some 100 in practice


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address."""
    require_dask()
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(
            "a Dask scheduler needs distributed: install it with pip install 'momentron[dask]'"
        ) from None
    require_scheduler(address)
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except Exception as error:  # whatever it makes of what answers there
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ClusterError(f"no Dask scheduler answers at {address}: {reason}") from error
    try:
        yield client
    finally:
        client.close()


def require_scheduler(address: str) -> None:
    """Refuse an address at which nothing speaks Dask's protocol, within seconds.

    A scheduler greets whoever connects: eight bytes with the length of a short message. Dask itself
    would take the first bytes of anything, such as a web server's answer, for the length of what
    follows, and ask for so much memory.
    """
    try:
        from distributed.comm import get_address_host_port, parse_address

        scheme, _ = parse_address(address)
        if scheme not in ("tcp", "tls"):
            return
        place = get_address_host_port(address)
    except Exception as error:
        raise ClusterError(
            f"{address!r} is not the address of a Dask scheduler ({error}); give one like "
            "tcp://host:8786"
        ) from error
    greeting = b""
    try:
        with socket.create_connection(place, timeout=GREETING) as connection:
            if scheme == "tls":
                return  # there the client speaks first
            while len(greeting) < 8 and (more := connection.recv(8 - len(greeting))):
                greeting += more
    except (OSError, OverflowError, UnicodeError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address}: {error}; start one, or check the address"
        ) from error
    if len(greeting) < 8 or int.from_bytes(greeting, "little") > LONGEST_GREETING:
        raise ClusterError(f"what answers at {address} is not a Dask scheduler; check the address")
