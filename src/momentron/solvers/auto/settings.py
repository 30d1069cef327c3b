"""The numbers of `auto` that a user or a test may want to change; all others are constants.

Sizes of working sets are in rows, or pairs (example, wrong label).
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class AutoSettings:
    """Sizes and limits of `Auto`: `Auto(AutoSettings(small=200))`."""

    # --- memory --------------------------------------------------------------------------------
    # Bytes for working sets, factors and copies of rows, besides X and kernel values.
    memory: int = 2 * 2**30
    form_bytes: int = 16  # bytes of a form for each entry of its Gram matrix: that, and a factor
    # The same of K_SS of many classes: that, an inverse in single precision and what it is made of,
    # or the classes' blocks.
    kernel_entry_bytes: int = 24
    # Entries of all blocks of a preconditioner together: 500 MB in float64.
    block_room: int = 60_000_000

    # --- which engine --------------------------------------------------------------------------
    many_pairs: int = 20_000  # pairs from which the engine of many classes takes over,
    many_soft_pairs: int = 2500  # with slack, where most pairs have weight,
    many_split_pairs: int = 300  # and where alternating directions can do it,
    split_finest: float = 1e-7  # as far as single precision is likely to get
    pass_seconds: float = 0.02  # seconds of a factor from which products may be faster,
    pass_products: int = 60  # and products of a step compared with it
    proposal_seconds: float = 0.02  # seconds of a factor from which LIBLINEAR is asked first
    # Rows from which Newton with multipliers comes before the interior point, with several
    # intercepts, and those of a kernel.
    box_few: int = 1500
    box_few_values: int = 600

    # --- working sets --------------------------------------------------------------------------
    small: int = 400  # rows of a first working set; up to 1.5 times as many are taken at once
    rounds: int = 60  # rounds in all
    box_sample: int = 1000  # rows of the sample on which a hinge of many rows begins
    kernel_first: int = 1000  # examples of a first working set of many classes through a kernel

    # --- pivots --------------------------------------------------------------------------------
    pivots: int = 400  # on a Gram matrix in all
    # Entries up to which all rows are solved by least squares at once,
    straight_entries: int = 20_000
    straight_pivots: int = 60  # and its pivots, besides ten per feature

    # --- rational arithmetic, where floats see only roundings -----------------------------------
    exact_support: int = 150  # features, or rows, up to which it is tried

    # --- the preconditioner of many classes ----------------------------------------------------
    thin_block: float = 1.0  # work of a block held by its rows, as a share of that in full

    def within(self, memory: int | None) -> "AutoSettings":
        """The same for a memory limit; at most a quarter of it goes to a preconditioner."""
        if memory is None or memory == self.memory:
            return self  # nearly always, and a copy takes a while
        return replace(self, memory=memory, block_room=min(self.block_room, memory // 32))


SETTINGS = AutoSettings()
