"""False verdicts: over 3,000 problems of known separability, ours and others' answers to them.

Run with ``python -m benchmarks.false_verdicts``; ``--help`` lists the options.
"""
