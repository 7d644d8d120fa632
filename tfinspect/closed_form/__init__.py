"""Arithmetic on a ModelSpec: every formula of the project, with no torch in sight."""
