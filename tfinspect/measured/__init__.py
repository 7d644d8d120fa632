"""What a run, the dispatcher or a module says; never a formula."""
