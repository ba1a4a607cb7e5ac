"""Who may do what: roles, the people and keys that have them, and the actor whose name stands in the journal."""

import re
import unicodedata
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from disco.records.errors import InputError

MOST_NAME_CHARACTERS = 100


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRecord:
    """Somebody who can sign in. People are disabled and never removed, so that a name always means one person."""

    name: str
    role: Role
    created_at: datetime
    email: str | None = None
    password: str | None = field(default=None, repr=False)
    """An argon2 hash; None: they sign in through an identity provider."""
    issuer: str | None = None
    """The identity provider (OpenID Connect), and who they are there (`subject`)."""
    subject: str | None = None
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """An API key. Its secret is not kept, only a hash of it."""

    key_id: str
    name: str
    role: Role
    secret_hash: str = field(repr=False)
    """SHA-256 of the secret in hexadecimal digits: 256 random bits need no slow hash."""
    created_by: str
    created_at: datetime
    expires_at: datetime | None = None
    """None: it does not expire."""
    revoked_at: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitationRecord:
    """A one-time link with which somebody chooses a password."""

    token_hash: str = field(repr=False)
    role: Role
    invited_by: str
    created_at: datetime
    expires_at: datetime
    name: str | None = None
    """None: the first administrator, who chooses their own name."""
    email: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """Somebody who is signed in."""

    token_hash: str = field(repr=False)
    name: str
    created_at: datetime
    used_at: datetime
    expires_at: datetime


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


def checked_name(name: str, *, what: str = "name") -> str:
    """A name of a person or key: 1 to 100 visible characters, without blanks around it, each word in one script.

    >>> checked_name(" Anna "), checked_name("Łukasz"), checked_name("李雷"), checked_name("Ольга (CRM)")
    ('Anna', 'Łukasz', '李雷', 'Ольга (CRM)')
    """
    text = unicodedata.normalize("NFC", str(name)).strip()
    if not 1 <= len(text) <= MOST_NAME_CHARACTERS or not text.isprintable() or _INVISIBLE.search(text):
        expected = f"1 to {MOST_NAME_CHARACTERS} printable characters"
        raise InputError(what, found=ascii(str(name)[:80]), expected=expected)
    for word in re.findall(r"[^\W\d_]+", unicodedata.normalize("NFKC", text)):
        scripts = sorted({_script(letter) for letter in word if unicodedata.category(letter) != "Lm"})
        if len(scripts) > 1:
            found = f"{word!a}, with letters of {' and '.join(scripts)}"
            fix = "Such names can look like somebody else's. Write the word in one script."
            raise InputError(what, found=found, expected="words whose letters are of one script", fix=fix)
    return text


_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC")
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
    letters = unicodedata.normalize("NFKD", _INVISIBLE.sub("", name)).translate(_LOOKALIKES)
    return unicodedata.normalize("NFKC", " ".join(letters.translate(_LOOKALIKES).split()))


def _script(letter: str) -> str:
    """The script of a letter, as its name in Unicode begins; scripts that are written together count as one."""
    first = unicodedata.name(letter, "UNKNOWN").split()[0].split("-")[0]
    return "CJK" if first in _EAST_ASIAN else first


def folded(name: str) -> str:
    """The name as it is compared: capitals and forms of letters do not make another person."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()
