"""What computing rests on: rounding bounds, the floating-point environment, threads, deadlines."""
