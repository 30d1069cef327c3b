"""A digest of each block, so that a pass that reads other data than the first one is noticed.

Cryptographic hashes are slower than the passes that they would guard (SHA-256 with the processor's
own instructions 1.7 GB/s, BLAKE2b 0.6, where a pass runs at 3 to 5), so the bytes are first reduced
by a universal hash. Of every 1,024 words of 64 bits two sums mod 2⁶⁴ are kept: Σ a_i u_i, and
Σ b_i u′_i with u′_i the bytes of u_i in reverse. For keys a and b drawn at random, a changed word
whose lowest changed bit is t goes unnoticed by the first with probability 2^(t−64). If that bit is
high for u it is low for u′, t + t′ ≤ 70, so that both miss it with probability 2^−58 at most,
whatever the change. That holds for a deliberate one too, as the key is secret: drawn anew for each
stream, and never written down. SHA-256 then makes one digest of the sums.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from momentron.streams.blocks import Block

TILE = 1024  # words that one pair of sums stands for
CHUNK = 128 * TILE  # words that are turned round at a time: these stay in the cache


def keyed_digest(block: Block, secret: bytes) -> bytes:
    """What tells a block from others, fast; useful only to those who know the secret."""
    total = hashlib.sha256()
    for array in _parts(block):
        _describe(array, total)
        for sums in _sums(array, *_keys(secret)):
            total.update(sums.tobytes())
    return total.digest()


def content_digest(block: Block) -> bytes:
    """The SHA-256 of a block's rows and labels: the same in every process."""
    total = hashlib.sha256()
    for array in _parts(block):
        _describe(array, total)
        total.update(_bytes(array).data)
    return total.digest()


def _parts(block: Block) -> list[np.ndarray]:
    """The arrays that a block consists of, each in one piece."""
    X, y = block.X, block.y
    y = y.astype(str) if y.dtype.kind == "O" else y
    arrays = [X, y] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr, y]
    return [np.ascontiguousarray(array) for array in arrays]


def _describe(array: np.ndarray, total: "hashlib._Hash") -> None:
    total.update(f"{array.dtype.str}{array.shape}".encode())


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


@lru_cache(maxsize=8)
def _keys(secret: bytes) -> tuple[np.ndarray, np.ndarray]:
    words = np.frombuffer(hashlib.shake_256(secret).digest(16 * TILE), np.uint64)
    return words[:TILE], words[TILE:]


def _sums(array: np.ndarray, a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """The sums of all tiles; the last tile is filled up with zeros."""
    raw = _bytes(array)
    whole = raw.size - raw.size % (8 * TILE)
    pieces = [raw[start : min(start + 8 * CHUNK, whole)] for start in range(0, whole, 8 * CHUNK)]
    if whole < raw.size:
        rest = np.zeros(8 * TILE, np.uint8)
        rest[: raw.size - whole] = raw[whole:]
        pieces.append(rest)
    turned = np.empty(min(CHUNK, raw.size // 8 + TILE), np.uint64)
    sums = []
    for piece in pieces:
        words = piece.view(np.uint64)
        other = turned[: words.size]
        np.copyto(other, words.view(words.dtype.newbyteorder()))
        sums.append(np.einsum("ij,j->i", words.reshape(-1, TILE), a))
        sums.append(np.einsum("ij,j->i", other.reshape(-1, TILE), b))
    return sums


@dataclass
class DigestedResult:
    """What a task found, and the digests of the blocks that it saw."""

    found: Any
    digests: dict[int, bytes]


class Digesting:
    """A task that also brings back the digests of its blocks."""

    def __init__(self, task: Any, secret: bytes) -> None:
        self._task, self._secret = task, secret

    def __call__(self, block: Block, so_far: DigestedResult | None = None) -> DigestedResult:
        found = self._task(block, None if so_far is None else so_far.found)
        return DigestedResult(found, {block.number: keyed_digest(block, self._secret)})

    def merge(self, a: DigestedResult, b: DigestedResult) -> DigestedResult:
        """Both, in a."""
        return DigestedResult(self._task.merge(a.found, b.found), a.digests | b.digests)
