"""Who runs this program, by the account of the system: the actor of the command line and of Python."""

import getpass
import os
from functools import cache

from disco.records.people import Actor, ActorKind


@cache
def system_user() -> Actor:
    """By the number of the account: LOGNAME and USER say what anybody likes, and a second person may be asked for."""
    return Actor(_name(), ActorKind.COMMAND_LINE)


def _name() -> str:
    try:
        import pwd
    except ImportError:  # a system without accounts of this kind
        return getpass.getuser()
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # an account without a name, as in a container
        return f"uid {os.getuid()}"
