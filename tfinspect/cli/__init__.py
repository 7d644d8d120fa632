"""The command line: parses, calls one inspector, hands the result to one renderer."""
