"""The command line: `main(argv, stdout, stderr) -> int`, and nothing below it exits.

Exit codes: 0 clean, 1 findings or stale files, 2 could not run. What was asked for goes to
stdout; progress and failures go to stderr.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Sequence
from typing import TextIO

import click

from statekit._version import __version__
from statekit.errors import StatekitError
from statekit_codegen.commands.audit import audit
from statekit_codegen.commands.breaking import breaking
from statekit_codegen.commands.generate import generate
from statekit_codegen.commands.inspect import inspect
from statekit_codegen.commands.measure import measure
from statekit_codegen.commands.plan import plan
from statekit_codegen.commands.review import review
from statekit_codegen.commands.scaffold import scaffold
from statekit_codegen.commands.schema import schema
from statekit_codegen.commands.simulate import simulate
from statekit_codegen.commands.top import top
from statekit_codegen.commands.verify import verify
from statekit_codegen.commands.vet import vet

__all__ = ["main", "statekit"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="statekit")
def statekit() -> None:
    """Session state of world models: one schema a model, typed adapters, reviewed decisions."""


for command in (
    audit,
    breaking,
    generate,
    inspect,
    measure,
    plan,
    review,
    scaffold,
    schema,
    simulate,
    top,
    verify,
    vet,
):
    statekit.add_command(command)


def main(argv: Sequence[str], stdout: TextIO, stderr: TextIO) -> int:
    """Run one command and return its exit code; no traceback reaches the user."""
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            code = statekit.main(list(argv), prog_name="statekit", standalone_mode=False)
            return code if isinstance(code, int) else 0
        except StatekitError as error:
            print(error, file=stderr)
        except click.ClickException as error:
            error.show(stderr)
        except (click.Abort, KeyboardInterrupt):
            print("statekit: interrupted", file=stderr)
        except BrokenPipeError:
            # The reader of our pipe has seen enough; Python must not complain when it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 0
        except Exception as error:
            # Python itself exits with 1 here, which means "findings" for this tool.
            if os.environ.get("STATEKIT_DEBUG"):
                traceback.print_exc(file=stderr)
            print(
                f"statekit: internal error: {type(error).__name__}: {error}; please report it, "
                "with the output of the same command under STATEKIT_DEBUG=1",
                file=stderr,
            )
        return 2
