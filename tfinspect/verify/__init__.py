"""The claims of the sources as checks: each measures, and each has a broken twin that it must catch."""
