"""What people see: tables, traces, progress, notebook cards, pictures."""
