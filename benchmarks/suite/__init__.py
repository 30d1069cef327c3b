"""Momentron against its peers: problems, solvers in processes of their own, scores, a report."""
