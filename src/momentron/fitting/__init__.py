"""From options and data in memory to a result, for all classes jointly or one against the rest."""
