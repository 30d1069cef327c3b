"""Benchmarks and campaigns, run from a checkout: python -m benchmarks.NAME."""
