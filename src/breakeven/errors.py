"""The exceptions that cross layers: what a user can mend, and what a case cannot do.

Knows nothing about anything else in the package.

    Exception
     +- UserError      the user can mend it; printed as one line, exit 1
     |   +- UsageError the command line is wrong; one line, exit 2
     +- Unsupported    this runtime cannot run this case here; an outcome with a reason, never a crash
     +- Mismatch       what ran is not what the label says; an outcome with a reason
"""

from typing import Literal


class UserError(Exception):
    """Something the user can mend. The message is one line and says what to do."""


class UsageError(UserError):
    """A command line that cannot be understood. The message is one line."""


class Unsupported(Exception):
    """The runtime cannot run this case on this machine. The message is the reason shown in the results."""


MismatchOutcome = Literal["device_mismatch", "precision_mismatch", "output_mismatch", "invalid"]


class Mismatch(Exception):
    """What ran differs from what the case says: device, precision or output.

    `outcome` is the attempt outcome to record; the message is its reason.
    """

    def __init__(self, outcome: MismatchOutcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome: MismatchOutcome = outcome
