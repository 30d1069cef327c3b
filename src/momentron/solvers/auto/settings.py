"""Every number that tunes `auto`, in one place.

Penalties C are in units of 1/mean‖a‖², a the rows of the working set; sizes of working sets in
rows, or in multiples of the support.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class AutoSettings:
    """What `Auto` may be told to do otherwise: `Auto(AutoSettings(small=200))`."""

    # --- which engine --------------------------------------------------------------------------
    # Pairs (example, wrong label) from which the joint engine takes over.
    many_pairs: int = 20_000
    # The same for hard margins without intercepts, the best case of exact solves.
    many_simple_pairs: int = 60_000
    # Slacks from which a soft margin may end before its first good proposal: W = 0 is proposed.
    many_slacks: int = 2000
    # Pairs from which few wide examples are fitted for a first classifier.
    interpolated_pairs: int = 100_000
    # Examples up to which they are.
    interpolated_examples: int = 8000
    # The fit's ridge, in units of the mean ‖x‖²: an exact fit would spend its length on examples
    # that are nearly equal. On sector.scale 1e-4 proves a margin of 6.0e-3, 1e-2 one of 2.1e-3 and
    # 1e-8 one of 1.0e-3.
    interpolation_ridge: float = 1e-4

    # --- rank ----------------------------------------------------------------------------------
    # Rows of a first working set; up to 1.5 times as many are taken at once.
    small: int = 400
    # Rows of two classes that are taken at once where they are not many more than the features.
    all_rows: int = 3000
    # Examples of many classes among which momentum finds the first working set.
    momentum_sample: int = 2000
    # Steps of momentum that it takes.
    momentum_steps: int = 40
    # Penalties of the soft margins that rank: of all the rows at once.
    all_Cs: tuple[float, ...] = (100.0,)
    # Of a sample.
    sample_Cs: tuple[float, ...] = (10.0, 100.0)
    # Of the pairs that momentum has found.
    pair_Cs: tuple[float, ...] = (100.0, 1000.0)
    # Of the second working set.
    second_Cs: tuple[float, ...] = (100.0, 1000.0)
    # Of all further ones.
    last_Cs: tuple[float, ...] = (1000.0,)
    # Working sets that are ranked before one is solved.
    rankings: int = 4
    # The same for kernels, where exact solves are dearer.
    kernel_rankings: int = 8
    # Rows outside a working set with slack, as a share of the support, at which the ranking stands.
    settled_share: float = 0.2
    # The least size of the next working set, as a multiple of the support.
    least_room: float = 1.2
    # Features of sparse data from which all rows are ranked by passes: a sample says nothing about
    # rows that share no features with it.
    wide: int = 3000
    # Penalties of that ranking.
    pass_Cs: tuple[float, ...] = (10.0, 1000.0)
    # One more between them where there are many support vectors.
    extra_C: float = 100.0
    # The share of the rows that is many.
    many_supports: float = 0.25
    # Relative residual, and products, at which a direction is good enough to rank by.
    quick_direction: tuple[float, int] = (0.2, 30)
    # The same where there are many support vectors.
    careful_direction: tuple[float, int] = (0.05, 60)

    # --- solve ---------------------------------------------------------------------------------
    # Rounds in all.
    rounds: int = 60
    # Solves with as many rows as the memory for kernel values allows, before giving up.
    crowded_rounds: int = 6
    # The first penalty of the multipliers after a ranking.
    first_C: float = 1e4
    # The same in later rounds.
    later_C: float = 1e5
    # Multipliers below this share of the largest are not support.
    support_share: float = 1e-9
    # The same after a rough interior solve, where every multiplier is positive.
    rough_support_share: float = 0.01
    # The next working set's size, as a multiple of the support.
    support_room: float = 2.0
    # The same after a rough interior solve.
    rough_support_room: float = 2.5
    # The same for kernels, whose values are dear.
    kernel_share: float = 1.2
    # ‖Aᵀq‖ in units of ‖a‖ at which q is a witness.
    vanished: float = 1e-13
    # The gap at which only rounding may keep it open, if no row outside is worse than those inside.
    rounding_gap: float = 1e-8
    # Exchanges of a support.
    exchanges: int = 10
    # Exchanges in a row that leave as many rows on the wrong side as before.
    exchange_patience: int = 2
    # Support vectors, as a share of the rank, from which exchanges have no room.
    crowded: float = 0.85
    # A pivot of a Gram matrix, in units of ‖a‖², at which rows are combinations of others.
    singular: float = 1e-13
    # Pivots in all.
    pivots: int = 400
    # Fresh solves between pivots, after which rounding has left too much.
    pivot_corrections: int = 3
    # Fresh solves in which rows without weight are dropped.
    pivot_drops: int = 5
    # Rows of a support whose inverse is worth its price.
    pivot_support: int = 2000
    # Room for members of a support beside the first ones.
    pivot_room: int = 64
    # The size of a working set for pivots, as a multiple of the support.
    pivot_share: float = 1.3

    # --- Newton on a working set ---------------------------------------------------------------
    # Rows from which line searches leave out those that do not count.
    many_rows: int = 4000
    # The relative accuracy of a line search: more changes no step count.
    search_accuracy: float = 1e-3
    # Steps of a line search.
    search_steps: int = 30
    # A step within this of 1 is taken as 1 at the end of a rough soft margin.
    nearly_full: float = 0.2
    # Newton steps of a soft margin that ranks.
    rough_steps: int = 8
    # The share of the rows with slack that may still change at its end.
    rough_slack: float = 0.05
    # Newton steps in which an exact soft margin nearly always settles.
    quick_steps: int = 15
    # Where it does not, the first C of a path to it.
    path_start: float = 10.0
    # The path's growth.
    path_growth: float = 3.0
    # Newton steps at each C of the path.
    path_steps: int = 30
    # The share of the rows with slack that may still change there.
    path_slack: float = 0.02
    # Newton steps between two updates of the multipliers: more mean that Newton stalls.
    inner_steps: int = 7
    # The same for kernels, which have no end of features.
    inner_kernel_steps: int = 20
    # Updates of the multipliers.
    updates: int = 14
    # Growth of their penalty.
    penalty_growth: float = 10.0
    # The largest penalty.
    penalty_last: float = 1e9
    # A gap that falls below this share of the best keeps the penalty, and with it the factor.
    fast_update: float = 0.02
    # A gap that stays above this share of the best does not fall any more,
    stagnant: float = 0.3
    # if it is below this.
    stagnant_gap: float = 1e-9
    # Rows up to which single precision saves nothing.
    single_size: int = 300
    # The share of the rows with slack whose change makes a Hessian anew.
    renewed: float = 0.6
    # Entries of rows that are densified or copied at a time.
    block_entries: int = 4_000_000

    # --- the interior point on a working set ---------------------------------------------------
    # Iterations.
    interior_steps: int = 60
    # Σλ at a cold start, in units of 1/mean‖a‖².
    cold_mass: float = 6000.0
    # A gap below this share of the best is progress.
    interior_progress: float = 0.7
    # A gap above this multiple of the best is the end.
    interior_diverged: float = 1e3
    # Iterations without progress: far from the end, near it, and at rounding level.
    interior_patience: tuple[int, int, int] = (20, 8, 3)
    # Weights of rows below this, λ‖a‖²/s, are left out of its matrix.
    no_weight: float = 1e-12
    # The fall of ‖Aᵀq‖ after which λ is projected on Aᵀq = 0 again.
    witness_fall: float = 1e-3
    # Steps of such a projection.
    projections: int = 3
    # The gap of the first leg, before the look at all the rows.
    rough_gap: float = 3e-3
    # The gap from which that look tells which rows matter.
    telling_gap: float = 0.01
    # The gap from which multipliers may polish an interior solution.
    polished_gap: float = 0.01
    # Their penalties.
    polish_penalties: tuple[float, ...] = (1e6, 1e9, 1e12)
    # Updates at each.
    polish_updates: int = 8
    # The share of the largest multiplier below which polishing begins from zero.
    polished_support: float = 1e-6

    # --- refine --------------------------------------------------------------------------------
    # The gap, relative to the margin, at which a support looks right.
    refined_gap: float = 0.1
    # The order of the system that is refined in extended precision.
    refined_order: int = 3000
    # Steps of refinement.
    refined_steps: int = 6

    # --- working sets as forms -----------------------------------------------------------------
    # Bytes of a form for each entry of its Gram matrix: that, and a factor.
    form_bytes: int = 16
    # The square of a margin, in units of ‖a‖², that a Gram matrix shows to 13 digits.
    telling_square: float = 1e-3
    # d·k up to which the rows of a working set of pairs are written out.
    flat_width: int = 2500
    # Rows per feature up to which rows are seen through their Gram matrix.
    wide_ratio: float = 1.5
    # Rows up to which that is 1.
    wide_small: int = 300
    # The share of a Gram matrix that must be known for the rest to be added to it.
    known_share: float = 0.4

    # --- soft margins --------------------------------------------------------------------------
    # C from which a soft margin is nearly hard.
    nearly_hard: float = 1e5
    # Newton steps of an exact soft margin.
    soft_steps: int = 60
    # The same from a solution of the interior point.
    soft_polish_steps: int = 5
    # Rounds of working sets.
    soft_rounds: int = 60
    # Rows per feature from which dense data are tall.
    tall_ratio: int = 4
    # Rows of the sample on which tall data begin, and the same per feature.
    soft_sample: int = 2000
    soft_sample_ratio: int = 10

    # --- the joint engine of many classes ------------------------------------------------------
    # Examples on which its first classifier is found.
    joint_sample: int = 2000
    # The accuracy of a Newton direction, and the finest where that is too rough.
    joint_accuracy: float = 0.1
    joint_finest: float = 1e-4
    # √(gᵀH⁻¹g)/‖W‖ at which multipliers may be updated, or less where the gap is small.
    joint_near: float = 3e-3
    # The same at which rounding may be what keeps the gap open.
    joint_rounding: float = 1e-8
    # The first penalty of hard margins, and the largest first one of soft ones.
    joint_first_C: float = 10.0
    # The first one of a warm start.
    joint_warm_C: float = 100.0
    # The penalty from which multipliers take over from growing it.
    joint_hard_C: float = 1000.0
    # The largest one.
    joint_last_C: float = 1e7
    # The mean slack of the active pairs at which multipliers take over.
    joint_faint: float = 0.01
    # Newton steps at each penalty on the way.
    joint_rough_steps: int = 3
    # Newton steps between two updates of the multipliers.
    joint_inner_steps: int = 20
    # Looks at the gap without a better one: at rounding level, and before.
    joint_patience: tuple[int, int] = (8, 40)
    # The same as long as nothing separates: then it is an upper bound that falls.
    joint_short_patience: int = 3
    # Newton steps with multipliers after which a witness is sought.
    witness_steps: tuple[int, ...] = (2, 8, 32, 64, 128, 256)
    # Rounds of that search.
    witness_rounds: int = 8
    # Rounds in which a weight would change its sign: then the weights are not near enough.
    witness_cuts: int = 2
    # Its least-squares problem's weight against the identity, in units of its trace.
    witness_stiffness: float = 1e8
    # Products in one round.
    witness_products: int = 60
    # A weight below this, beside the largest, is left out.
    witness_faint: float = 1e-10
    # Products for one direction of Newton's.
    joint_products: int = 200
    # The products for one direction before an old preconditioner is given up,
    joint_least_products: int = 12
    # and the same as a multiple of what a new one needed.
    joint_stale: float = 2.0
    # The trace of a Hessian's block up to which single precision serves.
    joint_single: float = 1e7
    # Entries of all the preconditioner's blocks together: 500 MB in float64.
    block_room: int = 60_000_000
    # Rows per feature up to which a block is held by its rows.
    thin_block: float = 1.0
    # Examples of a kernel's first working set.
    kernel_first: int = 1000
    # Bytes for each entry of K_SS: that, its factor, and what products need.
    kernel_entry_bytes: int = 24
    # The gap to which a working set is solved while many examples outside are too near.
    kernel_rough_gap: float = 0.01
    # Functional margin up to which an example without weight stays in the working set.
    kernel_spare: float = 1.3
    # Rounds of working sets.
    kernel_rounds: int = 40
    # Added to the diagonal of K_SS, in units of its mean.
    kernel_ridge: float = 1e-13

    def few_violators(self, size: int) -> int:
        """As many as pivots are worth for a support of that size: with more, others are faster."""
        return 10 + size // 10


SETTINGS = AutoSettings()
