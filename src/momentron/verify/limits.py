"""How much of a proof is read, and how much work it may cause: it may be hostile.

Everything is bounded before it is done, by what the largest honest proof of the same data needs.
What `check_separability` writes obeys the same limits.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from momentron.verify.data import Data
from momentron.verify.errors import ProofTooLarge

MAX_CHARACTERS = 1 << 26  # of a proof: MNIST's threes against fives need 2^23
MAX_CONTAINERS = 96  # lists and objects in a proof: groups of weights and estimates need 70
VECTORS = 64  # bounds, directions and null vectors of estimates, of full length
LONGEST_NAME = 100  # characters of a column's name, on average
MAX_GROUPS = 4  # groups of weights: two of boundary weights, a conflict, a dual
MAX_BASIS = 4_000  # pairs of an enclosure: 128 MB for each of a few dense matrices
MAX_DIGITS = 1 << 16  # hexadecimal digits of a number
MAX_WORK = 1 << 37  # products of 30-bit digits: some minutes

KARATSUBA = 70  # digits from which Python splits factors in three


@dataclass(frozen=True)
class Allowance:
    """What the largest honest proof of some data needs, with room to spare: more is not read.

    Attributes
    ----------
    characters : int
        Of its JSON.
    entries : int
        Of all its lists together.
    bits : int
        Of each number. A system of r equations has solutions of r times the bits of its entries.
    pairs : int
        The pairs (row, other class) of the data.
    """

    characters: int
    entries: int
    bits: int
    pairs: int

    @classmethod
    def of(cls, data: Data) -> "Allowance":
        classes = set(data.labels)
        others = max(2, len(classes) - 1)  # a row of the Poisson or the ordinal family has up to 2
        pairs, weights = data.n * others, (data.d + 1) * others
        rank = 1 + min(pairs, (data.used.size + 1) * others)
        bits = min(4 * MAX_DIGITS, 4 * rank * (data.bits + rank.bit_length()) + (1 << 13))
        longest = max((len(label) for label in classes), default=0)
        names = sum(len(label) for label in classes) + 2 * rank * longest
        entries = 64 + len(classes) + 3 * weights + 12 * pairs + 6 * rank + data.d
        entries += 4 * weights * min(weights, VECTORS)  # of the estimates
        characters = (1 << 12) + 12 * (names + data.d * LONGEST_NAME)
        characters += (weights * min(weights, VECTORS) + 4 * pairs) * (bits // 4 + 100)
        return cls(min(MAX_CHARACTERS, characters), entries, bits, pairs)

    def require_short(self, numbers: Iterable[str]) -> None:
        """Raise unless the numbers, as text, are no longer than those of an honest proof."""
        longest = max(map(len, numbers), default=0)
        if longest > MAX_DIGITS:
            raise ProofTooLarge(f"a number has {longest} digits; at most {MAX_DIGITS} are read")
        if 4 * (longest - 8) > self.bits:
            raise ProofTooLarge(
                f"the numbers are too long to be checked: {longest} digits, and no honest proof of "
                f"these data needs more than {self.bits // 4}"
            )


def require_little_work(work: int) -> None:
    """Raise if so many products of digits would take more than minutes."""
    if work > MAX_WORK:
        raise ProofTooLarge(
            f"the numbers are too long to be checked on so many entries of X: about {work:.1e} "
            f"products of digits, where at most {MAX_WORK:.1e} are computed"
        )


def bits_of(numbers: Iterable[int]) -> int:
    """Bits of the longest of some numbers."""
    return max((abs(v).bit_length() for v in numbers), default=0)


def product_cost(first: int, second: int) -> int:
    """Products of 30-bit digits in a product of two numbers with so many bits; 64 at least."""
    short, long = sorted((1 + first // 30, 1 + second // 30))
    if short >= KARATSUBA:  # Python splits the longer factor into pieces, and these in three
        short = int(KARATSUBA * (short / KARATSUBA) ** 0.6)
    return 64 + short * long
