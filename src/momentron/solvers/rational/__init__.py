"""Rational arithmetic: what floats propose is made exact here, and what they cannot see is found.

systems   linear systems of integers, solved exactly by python-flint
nearest   the nearest points of convex hulls, by Wolfe's algorithm
memory    how much of it exact numbers may take
"""
