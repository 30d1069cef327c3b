"""Benchmarks: speed is shown here, never by a timed test."""
