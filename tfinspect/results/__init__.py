"""Frozen answers: what an inspector returns, a renderer draws and JSON carries."""
