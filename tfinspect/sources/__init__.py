"""Where a model comes from: everything here is unproven input until it is a ModelSpec."""
