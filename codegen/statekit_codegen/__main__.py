"""The console script `statekit`; says what is missing where the `codegen` extra is."""

from __future__ import annotations

import io
import sys

__all__ = ["run"]


def run() -> None:
    """Run the command line on this process's arguments and exit with its code."""
    try:
        from statekit_codegen.cli import main
    except ImportError as error:
        print(
            f"statekit: {error.name} is not installed; the command line needs the extra 'codegen': "
            "pip install 'statekit[codegen]'",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # text of a schema in a pipe that is not UTF-8
            stream.reconfigure(errors="backslashreplace")
    raise SystemExit(main(sys.argv[1:], sys.stdout, sys.stderr))


if __name__ == "__main__":
    run()
