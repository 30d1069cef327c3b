"""Truths to test against: exact arithmetic and brute force, computed without the package."""
