"""Truths to test against: exact arithmetic and brute force, sharing no code with the package."""
