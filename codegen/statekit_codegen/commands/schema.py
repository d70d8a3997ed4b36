"""`statekit schema`: print the JSON Schema of the language, for editors."""

from __future__ import annotations

import click

__all__ = ["schema"]


@click.command(short_help="Print the JSON Schema of schemas, for editors.")
def schema() -> None:
    """Print the JSON Schema of the schema language (draft 2020-12).

    With it an editor completes keys and words, shows what each one means, and marks what the
    language does not have. What it cannot see (names in another part of the file, expressions)
    `statekit vet` finds.

    \b
    Example:
      $ statekit schema > .statekit.schema.json

    \b
    In the first line of a schema, for editors with YAML Language Server:
      # yaml-language-server: $schema=../.statekit.schema.json
    """
    from statekit_codegen.json_schema import json_schema_text  # made when asked for

    print(json_schema_text(), end="")
