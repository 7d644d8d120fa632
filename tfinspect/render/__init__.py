"""Results to text; never a model."""
