"""Whether `max_time` and Ctrl-C are obeyed: asked against taken, on every path of the library."""
