"""The dual side: label schemes, the sets in which dual weights lie, losses."""
