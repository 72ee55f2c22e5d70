"""The command line: verbs, options, exit codes. With `progress`, the only place that prints or exits.

Knows nothing about how anything is measured or worked out. Nothing heavy is imported before a verb needs it.
"""

import os
import sys
from typing import Annotated, NoReturn

import typer

from breakeven import __version__
from breakeven.cli.deciding import advise, compare
from breakeven.cli.listing import doctor, list_
from breakeven.cli.measuring import plan, run
from breakeven.cli.showing import predict, report, trend
from breakeven.cli.terminal import INTERRUPTED, OK, USAGE, USER_ERROR, speak_plainly
from breakeven.errors import UsageError, UserError

app = typer.Typer(
    name="breakeven",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="How much faster does a model train on one device than on another, and how sure is that?",
    epilog="Start with: breakeven run",
)
# In the order of the help.
for verb in (run, plan, report, trend, predict, advise, compare):
    app.command()(verb)
app.command("list")(list_)
app.command()(doctor)


def main() -> NoReturn:
    """The console script: runs a verb; every user error is one line on stderr."""
    speak_plainly()
    try:
        if len(sys.argv) == 1:
            sys.argv.append("--help")
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        _fail(str(error), USAGE)
    except UserError as error:
        _fail(str(error), USER_ERROR)
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)
    except typer.Abort:
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is left to say to it, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(OK)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail(f"cannot write the output: {error.strerror or error}", USER_ERROR)
    except Exception as error:
        shown = _usage_text(error)
        if shown is None:
            raise
        _fail(shown, USAGE)
    sys.exit(status if isinstance(status, int) else OK)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"breakeven {__version__}")
        raise typer.Exit(OK)


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """How much faster does a model train on one device than on another, and how sure is that?"""


def _usage_text(error: Exception) -> str | None:
    """The one line of a command-line error raised by the option parser; None for anything else."""
    text = getattr(error, "format_message", None)
    if text is None or not hasattr(error, "exit_code"):
        return None
    option = str(getattr(error, "option_name", "")).lstrip("-").replace("-", "_")
    if option:
        from breakeven.runner.flags import key_named

        if (key := key_named(option)) is not None:
            return f"no option --{option}: it is a key of a study, so write --set {key}=VALUE"
    return " ".join(str(text()).split())


def _fail(text: str, status: int) -> NoReturn:
    print(f"breakeven: {text}", file=sys.stderr)
    sys.exit(status)
