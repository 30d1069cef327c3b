"""Every number that tunes `auto`, in one place.

Penalties C, twice those of users, are in units of 1/mean‖a‖², a the rows of the working set; sizes
of working sets in rows, or in multiples of the support.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class AutoSettings:
    """What `Auto` may be told to do otherwise: `Auto(AutoSettings(small=200))`."""

    # --- memory --------------------------------------------------------------------------------
    # Bytes for working sets, factors and copies of rows, beside X and kernel values.
    memory: int = 2 * 2**30

    # --- which engine --------------------------------------------------------------------------
    many_pairs: int = 20_000  # pairs (example, wrong label) from which the joint engine takes over
    # The same for hard margins without intercepts, the best case of exact solves.
    many_simple_pairs: int = 60_000
    # The same where alternating directions can do it.
    many_split_pairs: int = 300
    # Unknowns, (classes − 1) × (features + 1), from which supports are so large that a share of
    # these pairs is enough, and that share: usually, and for the simple ones.
    many_unknowns: int = 1800
    crowded_share: tuple[float, float] = (0.18, 0.34)
    # Pairs from which few wide examples are fitted for a first classifier.
    interpolated_pairs: int = 100_000
    interpolated_examples: int = 8000  # examples up to which they are
    # The fit's ridge, in units of the mean ‖x‖²: an exact fit would spend its length on examples
    # that are nearly equal. On sector.scale 1e-4 proves a margin of 6.0e-3, 1e-2 one of 2.1e-3 and
    # 1e-8 one of 1.0e-3.
    interpolation_ridge: float = 1e-4

    # --- rank ----------------------------------------------------------------------------------
    small: int = 400  # rows of a first working set; up to 1.5 times as many are taken at once
    # Rows of two classes that are taken at once where they are not many more than the features.
    all_rows: int = 3000
    # Examples of many classes among which momentum finds the first working set.
    momentum_sample: int = 2000
    momentum_steps: int = 40  # steps of momentum that it takes
    # Penalties of the soft margins that rank: of all the rows at once.
    all_Cs: tuple[float, ...] = (100.0,)
    sample_Cs: tuple[float, ...] = (10.0, 100.0)  # of a sample
    pair_Cs: tuple[float, ...] = (100.0, 1000.0)  # of the pairs that momentum has found
    second_Cs: tuple[float, ...] = (100.0, 1000.0)  # of the second working set
    last_Cs: tuple[float, ...] = (1000.0,)  # of all further ones
    rankings: int = 4  # working sets that are ranked before one is solved
    kernel_rankings: int = 8  # the same for kernels, where exact solves are dearer
    # Rows outside a working set with slack, as a share of the support, at which the ranking stands.
    settled_share: float = 0.2
    least_room: float = 1.2  # the least size of the next working set, as a multiple of the support
    # Features of sparse data from which all rows are ranked by passes: a sample says nothing about
    # rows that share no features with it.
    wide: int = 3000
    pass_Cs: tuple[float, ...] = (10.0, 1000.0)  # penalties of that ranking
    extra_C: float = 100.0  # one more between them where there are many support vectors
    many_supports: float = 0.25  # the share of the rows that is many
    # Relative residual, and products, at which a direction is good enough to rank by.
    quick_direction: tuple[float, int] = (0.2, 30)
    # The same where there are many support vectors.
    careful_direction: tuple[float, int] = (0.05, 60)

    # --- solve ---------------------------------------------------------------------------------
    rounds: int = 60  # rounds in all
    # Solves with as many rows as the memory for kernel values allows, before giving up.
    crowded_rounds: int = 6
    first_C: float = 1e4  # the first penalty of the multipliers after a ranking
    later_C: float = 1e5  # the same in later rounds
    support_share: float = 1e-9  # multipliers below this share of the largest are not support
    # The same after a rough interior solve, where every multiplier is positive.
    rough_support_share: float = 0.01
    support_room: float = 2.0  # the next working set's size, as a multiple of the support
    rough_support_room: float = 2.5  # the same after a rough interior solve
    kernel_share: float = 1.2  # the same for kernels, whose values are dear
    kernel_last_share: float = 1.1  # and after the last ranking
    vanished: float = 1e-13  # ‖Aᵀq‖ in units of ‖a‖ at which q is a witness
    # The gap at which only rounding may keep it open, if no row outside is worse than those inside.
    rounding_gap: float = 1e-8
    exchanges: int = 10  # exchanges of a support
    # Exchanges in a row that leave as many rows on the wrong side as before.
    exchange_patience: int = 2
    # Rows that come and go between exchanges, and the same as a share of the support, up to which
    # the last factor serves; what margins may be off by then.
    bordered_rows: int = 16
    bordered_share: float = 0.03
    bordered_error: float = 1e-10
    bordered_least: int = 150  # rows below which a fresh factor is cheaper than a bordered one
    # Support vectors, as a share of the rank, from which exchanges have no room.
    crowded: float = 0.85
    # A pivot of a Gram matrix, in units of ‖a‖², at which rows are combinations of others.
    singular: float = 1e-13
    pivots: int = 400  # pivots in all
    # Fresh solves between pivots, after which rounding has left too much.
    pivot_corrections: int = 3
    pivot_drops: int = 5  # fresh solves in which rows without weight are dropped
    pivot_support: int = 2000  # rows of a support whose inverse is worth its price
    pivot_room: int = 64  # room for members of a support beside the first ones
    pivot_share: float = 1.3  # the size of a working set for pivots, as a multiple of the support

    # --- the straight path of small problems ----------------------------------------------------
    straight_entries: int = 20_000  # entries up to which all rows are solved by pivots at once
    straight_width: int = 24  # features up to which they are
    # A pivot, in units of the longest ‖a‖², at which a row is a combination of the support.
    straight_singular: float = 1e-10
    straight_pivots: int = 60  # pivots beside ten per feature

    # --- Newton on a working set ---------------------------------------------------------------
    many_rows: int = 4000  # rows from which line searches leave out those that do not count
    # The relative accuracy of a line search: more changes no step count.
    search_accuracy: float = 1e-3
    search_steps: int = 30  # steps of a line search
    # A step within this of 1 is taken as 1 at the end of a rough soft margin.
    nearly_full: float = 0.2
    rough_steps: int = 8  # Newton steps of a soft margin that ranks
    rough_slack: float = 0.05  # the share of the rows with slack that may still change at its end
    quick_steps: int = 15  # Newton steps in which an exact soft margin nearly always settles
    path_start: float = 10.0  # where it does not, the first C of a path to it
    path_growth: float = 3.0  # the path's growth
    path_steps: int = 30  # Newton steps at each C of the path
    path_slack: float = 0.02  # the share of the rows with slack that may still change there
    # Newton steps between two updates of the multipliers: more mean that Newton stalls.
    inner_steps: int = 7
    inner_kernel_steps: int = 20  # the same for kernels, which have no end of features
    updates: int = 14  # updates of the multipliers
    penalty_growth: float = 10.0  # growth of their penalty
    penalty_last: float = 1e9  # the largest penalty
    # A gap that falls below this share of the best keeps the penalty, and with it the factor.
    fast_update: float = 0.02
    stagnant: float = 0.3  # A gap that stays above this share of the best does not fall any more,
    stagnant_gap: float = 1e-9  # if it is below this
    single_size: int = 300  # rows up to which single precision saves nothing
    # Rows that come and go at once up to which sparse ones are multiplied as dense ones.
    hessian_rows: int = 1000
    # The share of columns that are zero in a working set from which they are left out.
    unused_columns: float = 0.1
    renewed: float = 0.6  # the share of the rows with slack whose change makes a Hessian anew
    block_entries: int = 4_000_000  # entries of rows that are densified or copied at a time

    # --- rational arithmetic, where floats see only roundings -----------------------------------
    exact_entries: int = 20_000  # entries of X up to which Wolfe's algorithm is tried
    exact_support: int = 150  # features, or rows, up to which it is
    exact_seconds: float = 10.0  # seconds that it may take
    # ‖Zᵀq‖ in units of the longest row at which the certificate might call it a witness.
    nearly_vanished: float = 1e-11

    # --- the interior point on a working set ---------------------------------------------------
    interior_steps: int = 60  # iterations
    cold_mass: float = 6000.0  # Σλ at a cold start, in units of 1/mean‖a‖²
    interior_progress: float = 0.7  # A gap below this share of the best is progress
    interior_diverged: float = 1e3  # A gap above this multiple of the best is the end
    # Iterations without progress: far from the end, near it, and at rounding level.
    interior_patience: tuple[int, int, int] = (20, 8, 3)
    no_weight: float = 1e-12  # weights of rows below this, λ‖a‖²/s, are left out of its matrix
    witness_fall: float = 1e-3  # the fall of ‖Aᵀq‖ after which λ is projected on Aᵀq = 0 again
    projections: int = 3  # steps of such a projection
    rough_gap: float = 3e-3  # the gap of the first leg, before the pass over all the rows
    telling_gap: float = 0.01  # the gap from which that pass tells which rows matter
    polished_gap: float = 0.01  # the gap from which multipliers may polish an interior solution
    polish_penalties: tuple[float, ...] = (1e6, 1e9, 1e12)  # their penalties
    polish_updates: int = 8  # updates at each
    # The share of the largest multiplier below which polishing begins from zero.
    polished_support: float = 1e-6

    # --- refine --------------------------------------------------------------------------------
    refined_gap: float = 0.1  # the gap, relative to the margin, at which a support looks right
    refined_order: int = 3000  # the order of the system that is refined in extended precision
    refined_steps: int = 6  # steps of refinement

    # --- working sets as forms -----------------------------------------------------------------
    form_bytes: int = 16  # bytes of a form for each entry of its Gram matrix: that, and a factor
    # The square of a margin, in units of ‖a‖², that a Gram matrix shows to 13 digits.
    telling_square: float = 1e-3
    flat_width: int = 2500  # d·k up to which the rows of a working set of pairs are written out
    wide_ratio: float = 1.5  # rows per feature up to which rows are seen through their Gram matrix
    wide_small: int = 300  # rows up to which that is 1
    # The share of a Gram matrix that must be known for the rest to be added to it.
    known_share: float = 0.4

    # --- soft margins --------------------------------------------------------------------------
    nearly_hard: float = 1e5  # C from which a soft margin is nearly hard
    soft_steps: int = 60  # Newton steps of an exact soft margin
    soft_polish_steps: int = 12  # the same from a solution of the interior point
    tall_ratio: int = 4  # rows per feature from which dense data are tall
    soft_sample: int = 2000  # rows of the sample on which tall data begin, and the same per feature
    soft_sample_ratio: int = 10

    # --- soft margins by products alone ---------------------------------------------------------
    # Relative residual, and products, at which a direction is good enough.
    pass_direction: tuple[float, int] = (1e-2, 400)
    # Seconds of a factor from which products may be faster, and products of a step beside it.
    pass_seconds: float = 0.02
    pass_products: int = 60
    pass_factors: int = 4  # factors for which there must be time, or products are tried
    pass_patience: int = 8  # steps without progress

    # --- soft margins through columns of a kernel -----------------------------------------------
    column_stiffness: float = 50.0  # the largest C for them, in units of 1/‖a‖²
    column_support: int = 1200  # rows with slack from which a factor of their matrix takes longer
    column_steps: int = 40  # Newton steps in all
    # The share of the rows with slack that may come and go where a step counts as close,
    column_close: float = 0.01
    column_accuracy: tuple[float, float] = (1e-2, 1e-4)  # and a direction's accuracy far and close
    column_products: int = 80  # products with the columns for one direction
    column_goal: float = 0.25  # the gap at which they end, as a share of the tolerance
    # To settle and certify: rows near the margin without weight, as a share of all, and how often
    # the values of these and of the rows with weight are computed or read.
    column_closing: tuple[float, float] = (0.3, 2.5)

    # --- the plain hinge -----------------------------------------------------------------------
    box_steps: int = 150  # iterations of the interior point in a box
    box_start: float = 1.0  # the largest weight at its start, in units of 1/mean‖a‖²
    box_patience: int = 20  # iterations without progress
    box_gap: float = 0.1  # the gap to which it goes, as a share of the tolerance
    box_least_gap: float = 1e-14  # the same where steps cost little,
    box_cheap: float = 1e7  # which is up to so many operations
    box_few: int = 1500  # rows from which Newton with multipliers comes before the interior point
    # Rows of a kernel from which it does.
    box_few_values: int = 600
    # The first stiffness of the multipliers, as a share of C and in units of 1/mean‖a‖²,
    box_first: tuple[float, float] = (0.5, 10.0)
    box_last: tuple[float, float] = (100.0, 1e5)  # and the last ones
    box_growth: float = 5.0  # and its growth
    box_newton_steps: int = 40  # Newton steps at each stiffness
    box_slack: float = 0.05  # the share of the rows between that may change at the end of these,
    box_settled: float = 1e-4  # until the gap is so small
    box_updates: int = 40  # updates of the multipliers
    # The gap to which a working set is solved that leaves rows out, as a share of that of all rows.
    box_ahead: float = 0.02
    box_margin: float = 0.02  # how far above the margin rows are that join it beside those below
    box_slow: float = 0.3  # a gap above this share of the best makes the last stiffness grow
    box_idle: int = 8  # the same without progress
    # The gap to which they close a working set, as a share of the tolerance.
    box_share: float = 0.25
    # How far margins are expected to move in an update, in units of the last one's mean: rows
    # further from where their weights change are held.
    box_reach: float = 2.0
    box_near_share: float = 0.5  # the share of the rows that are not held up to which others are
    # Times that held rows are taken in, and their share up to which they are.
    box_near_rounds: int = 3
    box_near_missed: float = 0.05
    # Rows of a first sample, the same per feature, and samples in all the rows that make one worth
    # while.
    box_sample: int = 1000
    box_sample_ratio: int = 5
    box_sample_share: int = 4
    box_sample_steps: int = 6  # Newton steps on it, and the share of its rows between at their end
    box_sample_slack: float = 0.1
    box_second: float = 2.0  # the first stiffness after a sample, in units of the sample's
    # How near to the margin a row's weight is taken from a start, not from its side.
    box_near: float = 1e-4
    # Rows of a working set beside those below the margin, as a multiple of these.
    box_room: float = 1.5
    # A weight below this share of its slack, in units of ‖a‖², is taken as zero; at C the same.
    box_clear: float = 1e-3
    landmarks: int = 300  # rows of a kernel whose columns stand for it in the first weights
    landmark_ridge: float = 1e-4  # added to their Gram matrix, in units of ‖a‖²
    # The least that the landmarks leave of a row, in the same units: its stiffness' inverse.
    landmark_rest: float = 0.02
    landmark_steps: int = 20  # Newton steps for the first weights
    # The sum of all prices, in units of 1/mean‖a‖², up to which all rows may be at their bounds.
    box_small_prices: float = 30.0
    # Rows of a block beside the free ones, as a multiple of these and of those that violate.
    box_block_room: tuple[float, float] = (1.2, 0.6)
    box_block_updates: int = 6  # updates of the multipliers on a block
    box_block_bytes: int = 32  # for each entry of its Gram matrix: that, the last, and a factor
    box_block_steps: int = 15  # Newton steps at each stiffness on a block
    box_block_slack: float = 0.01  # the share of its rows between that may change at their end
    # The stiffness of the first block, as a share of C and in units of 1/mean‖a‖², and its growth
    # from block to block.
    box_block_first: tuple[float, float] = (3.0, 30.0)
    box_block_growth: float = 5.0
    box_block_ahead: float = 0.1  # the gap to which a block is solved, as a share of the whole
    box_blocks: int = 60  # blocks in all
    box_block_idle: int = 10  # blocks without progress
    # The tolerance from which single precision does for columns, and the largest price, in units of
    # 1/mean‖a‖², up to which it does.
    box_block_rough: tuple[float, float] = (5e-7, 30.0)
    box_single: float = 1e3  # stiffness in units of 1/mean‖a‖² up to which single precision serves

    # --- the joint engine of many classes ------------------------------------------------------
    joint_sample: int = 2000  # examples on which its first classifier is found
    # The accuracy of a Newton direction, and the finest where that is too rough.
    joint_accuracy: float = 0.1
    joint_finest: float = 1e-4
    # √(gᵀH⁻¹g)/‖W‖ at which multipliers may be updated, or less where the gap is small.
    joint_near: float = 0.01
    joint_roughness: float = 1.0  # its error in the weights, as a share of their update
    joint_rounding: float = 1e-8  # the same at which rounding may be what keeps the gap open
    # The first penalty of hard margins, and the largest first one of soft ones.
    joint_first_C: float = 10.0
    joint_warm_C: float = 30.0  # the first one of a warm start
    joint_hard_C: float = 1000.0  # the penalty from which multipliers take over from growing it
    joint_last_C: float = 1e7  # the largest one
    joint_faint: float = 0.01  # the mean slack of the active pairs at which multipliers take over
    joint_rough_steps: int = 3  # Newton steps at each penalty on the way
    joint_inner_steps: int = 20  # Newton steps between two updates of the multipliers
    # Looks at the gap without a better one: at rounding level, and before.
    joint_patience: tuple[int, int] = (8, 40)
    # The same as long as nothing separates: then it is an upper bound that falls.
    joint_short_patience: int = 6
    # Active pairs up to which exact solves go on where it stands still, and bytes for two of them.
    closing_pairs: int = 4000
    closing_bytes: int = 64
    # Newton steps with multipliers after which a witness is sought.
    witness_steps: tuple[int, ...] = (2, 8, 32, 64, 128, 256)
    witness_rounds: int = 12  # rounds of that search
    witness_idle: int = 5  # those in which ‖Zᵀq‖ may not halve
    # Its least-squares problem's weight against the identity, in units of its trace.
    witness_stiffness: float = 1e8
    witness_products: int = 60  # products in one round
    witness_faint: float = 1e-10  # A weight below this, beside the largest, is left out
    joint_products: int = 200  # products for one direction of Newton's
    # The products for one direction before an old preconditioner is given up,
    joint_least_products: int = 12
    joint_stale: float = 2.0  # and the same as a multiple of what a new one needed
    joint_single: float = 1e7  # the trace of a Hessian's block up to which single precision serves
    # Entries of all the preconditioner's blocks together: 500 MB in float64.
    block_room: int = 60_000_000
    # The trace of a block up to which that form's difference keeps digits in single precision.
    tame_block: float = 1e5
    # The share of the rows that count for a class from which classes share one block.
    alike_share: float = 0.5
    thin_block: float = 1.0  # rows per feature up to which a block is held by its rows
    # Alternating directions: the first ρ, in units of mean K_ii, and over-relaxation.
    split_first: float = 0.5
    split_relaxation: float = 1.8
    split_steps: int = 10  # steps between two looks
    # A look that leaves more than this share of the gap may change ρ, so often, and by a factor
    # between these.
    split_fall: float = 0.8
    split_changes: int = 4
    split_balance: tuple[float, float] = (2.0, 5.0)
    split_finest: float = 1e-7  # the finest tolerance that single precision is likely to reach
    # Looks among which the gap halves, or others take over: Newton, or exact solves of few pairs.
    split_patience: int = 8
    split_short_patience: int = 4
    kernel_first: int = 1000  # examples of a kernel's first working set
    # Bytes for each entry of K_SS: that, an inverse in single precision and what it is made of,
    # or the classes' blocks.
    kernel_entry_bytes: int = 24
    # The products for one direction before an old preconditioner is given up.
    kernel_least_products: int = 6
    # The gap to which a working set is solved while many examples outside are too near.
    kernel_rough_gap: float = 0.01
    kernel_goal: float = 0.8  # the last one, as a share of the tolerance
    # Functional margin up to which an example without weight stays in the working set.
    kernel_spare: float = 1.05
    # Violators, as a share of the working set, below which that is solved as far as asked.
    kernel_few: float = 0.35
    kernel_rounds: int = 40  # rounds of working sets

    def within(self, memory: int | None) -> "AutoSettings":
        """The same for so much memory; a quarter of it at most goes to a preconditioner."""
        if memory is None or memory == self.memory:
            return self  # nearly always: a copy of so many numbers takes a while
        return replace(self, memory=memory, block_room=min(self.block_room, memory // 32))

    def few_violators(self, size: int) -> int:
        """As many as pivots are worth for a support of that size: with more, others are faster."""
        return 10 + size // 10


SETTINGS = AutoSettings()
