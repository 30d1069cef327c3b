"""Separability: verdicts with proofs in exact arithmetic.

`check.check_separability` decides, `verdict.Verdict` carries the proof, and `momentron.verify`
checks it. This file imports nothing, so that the verifier loads no solver through it.
"""
