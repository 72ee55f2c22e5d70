"""`list` and `doctor`: what can be named, and what is here.

Nothing heavy is imported before a verb needs it.
"""

import json
import sys
import textwrap
from typing import Annotated, Any

import typer

from breakeven.cli.options import Json, Quiet
from breakeven.cli.terminal import OK, width
from breakeven.errors import UsageError


def list_(
    what: Annotated[
        str | None, typer.Argument(metavar="studies|models|tunings|devices|runtimes|data|gpus|cpus|published")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """List what can be named."""
    from breakeven.report.plain import columns
    from breakeven.runner import inventory

    if what is None:
        raise UsageError(f"name what to list: {', '.join(inventory.LISTS)}, such as breakeven list studies")
    if as_json:
        print(json.dumps(inventory.rows(what), allow_nan=False))
        return OK
    print(columns(inventory.rows(what, brief=True), width=width()))
    if not quiet and what == "published":
        from breakeven.analysis.published_ratios import sentences

        print("\nWorked out from these rows:")
        for sentence in sentences():
            print(textwrap.fill(sentence, width(), initial_indent="- ", subsequent_indent="  "))
    if not quiet and (credit := inventory.CREDITS.get(what)):
        print("\n" + textwrap.fill(credit, width()))
    return OK


def doctor(
    ceilings: Annotated[
        bool, typer.Option("--ceilings", help="Also measure what every device does at best; half a minute.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Show what is here, what is missing, and what would spoil a measurement."""
    from breakeven.runner import inventory

    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr)

    found = inventory.doctor(ceilings=ceilings, say=say)
    print(json.dumps(found, allow_nan=False) if as_json else _doctor_text(found))
    return OK


def _doctor_text(found: dict[str, Any]) -> str:
    from breakeven.report.plain import columns
    from breakeven.runner.inventory import ceiling_rows

    parts = [f"breakeven {found['breakeven']}, {found['cores_offered']} cores offered, {found['gpus']} GPUs"]
    parts += [columns(found[what]) for what in ("runtimes", "devices", "data")]
    if "ceilings" in found:
        parts.append(columns(ceiling_rows(found["ceilings"])))
    concerns = [
        {"": concern["severity"], "concern": concern["text"], "what to do": concern["fix"]}
        for concern in found["concerns"]
    ]
    parts.append(columns(concerns) if concerns else "Nothing here would spoil a measurement.")
    return "\n\n".join(parts)
