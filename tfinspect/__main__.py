"""``python -m tfinspect``."""

from tfinspect.cli.app import run

if __name__ == "__main__":
    run()
