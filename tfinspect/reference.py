"""The forward pass in NumPy float64, written from the definitions."""
