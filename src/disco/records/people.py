"""Who may do what: roles, the actor whose name stands in the journal, and whose names are those of one person."""

import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
    """What somebody may do at the service. Each role may do what those before it may."""

    VIEWER = "viewer"  # look at campaigns, plans and results
    PLANNER = "planner"  # see customers and codes; plan, launch, send outcomes, learn, pause, close and recall
    APPROVER = "approver"  # approve plans, read the audit journal
    ADMIN = "admin"  # people, keys, settings, schedules, webhooks

    def allows(self, needed: "Role") -> bool:
        """Whether this role may do what needs that one.

        >>> Role.ADMIN.allows(Role.PLANNER), Role.VIEWER.allows(Role.PLANNER)
        (True, False)
        """
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(needed)


class ActorKind(StrEnum):
    """By which door somebody writes."""

    PERSON = "person"  # signed in at the service
    KEY = "key"  # a program with an API key
    COMMAND_LINE = "command line"  # a user of the system, at the shell or from Python
    SCHEDULE = "schedule"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who writes. Two actors of one name count as one person, whatever their kinds."""

    name: str
    """The name of the person, of the API key, or of the user of the system."""
    kind: ActorKind
    """By which door: person, key, command line, schedule or worker."""

    def is_same_person(self, name: str) -> bool:
        """Whether somebody of this name would be this actor, or would look the same: capitals, forms of letters and
        letters of other scripts that look alike do not count.

        >>> Actor("Zoë", ActorKind.PERSON).is_same_person("ZOË"), Actor("аlice", ActorKind.KEY).is_same_person("Alice")
        (True, True)
        """
        return is_same_name(self.name, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls the service, after their key or session was checked."""

    actor: Actor
    role: Role
    session_id: str | None = None
    """The hash of the session's token, as it is stored; None for a key."""


class ApprovalRule(StrEnum):
    """Whose consent a launch needs."""

    NONE = "none"
    SECOND_PERSON = "second_person"  # of somebody who did not make the plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRecord:
    """Somebody's consent to a plan, by the id that will be launched."""

    plan_id: str
    by: Actor
    approved_at: datetime


INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# letters of other scripts, and digits, in the place of the Latin letters that they look like
_LOOKALIKES = str.maketrans(
    "АВЕЅІЈКМНОРСТУХҮԌԚԜӀавеѕіјкмнорстухүԁԍԛԝһӏѵ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαικνορτυχϲϳ" + "ıɑɡօոսհ" + "I1|0",
    "ABESIJKMHOPCTYXYGQWIabesijkmhopctyxydgqwhlv" + "ABEZHIKMNOPTYXaikvoptuxcj" + "iagonuh" + "lllO",
)


def is_same_name(first: str, second: str) -> bool:
    """Whether two names are those of one person: capitals and forms of letters do not count, nor do letters of other
    scripts, in small letters or in capitals, that look the same.

    >>> is_same_name("alice", "аӏісе"), is_same_name("alice", "АLІСЕ"), is_same_name("alice", "AIice")
    (True, True, True)
    >>> is_same_name("Ali", "All"), is_same_name("Olga", "Ольга")
    (False, False)
    """
    return (
        folded(first) == folded(second)
        or _shown(first).casefold() == _shown(second).casefold()
        or _shown(first.upper()) == _shown(second.upper())
    )


def _shown(name: str) -> str:
    """What a name looks like, in Latin letters as far as there are such."""
    letters = unicodedata.normalize("NFKD", INVISIBLE.sub("", name)).translate(_LOOKALIKES)
    return unicodedata.normalize("NFKC", " ".join(letters.translate(_LOOKALIKES).split()))


def folded(name: str) -> str:
    """The name as it is compared: capitals and forms of letters do not make another person."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()
