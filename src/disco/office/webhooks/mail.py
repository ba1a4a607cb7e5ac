"""Events as e-mail to people: a webhook whose address is `mailto:`, sent through the SMTP server of the settings.

A mail is a delivery like any other: it is written with what it tells of, tried again with growing pauses, and a server
that is away delays no other job. Mails are not signed and hold what the event says, which is no customer's data.
"""

import json
import smtplib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import make_msgid
from typing import TYPE_CHECKING, Any

from disco.records.arguments import MAIL_ADDRESS
from disco.records.errors import DeliveryError, InputError

if TYPE_CHECKING:
    from disco.adapters.config import SmtpSettings

MAIL = "mailto:"
_TIMEOUT_S = 10.0


def read_address(url: str) -> str:
    """The address of `mailto:somebody@example.com`; InputError for any other form.

    >>> read_address("mailto:buyer@shop.example")
    'buyer@shop.example'
    """
    address = url.removeprefix(MAIL)
    if MAIL_ADDRESS.fullmatch(address):
        return address
    raise InputError("address of a mail", found=repr(address), expected="one such as mailto:buyer@shop.example")


@dataclass(frozen=True, slots=True)
class MailSender:
    """Sends an event to one address."""

    smtp: "SmtpSettings | None"
    password: str | None = None

    def __call__(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """A status of success; DeliveryError where the server did not take the mail, so that it is tried again."""
        if self.smtp is None:
            fix = "Set `smtp: {host: …, sender: …}` in disco.yaml, and start the worker again."
            raise DeliveryError("The setting `smtp` names no server for mails", fix=fix)
        if self.smtp.user is not None and not self.password:
            fix = "Put it into DISCO_SMTP_PASSWORD, or its file into DISCO_SMTP_PASSWORD_FILE; start the worker again."
            raise DeliveryError("The setting `smtp.user` has no password", fix=fix)
        message = _message(json.loads(body), sender=self.smtp.sender, to=read_address(url))
        try:
            with self._connected() as server:
                server.send_message(message)
        except (smtplib.SMTPException, OSError, UnicodeError) as error:  # of TLS, and of names that are no ASCII, too
            raise DeliveryError(f"The mail server did not take the mail ({_reason(error)})") from error
        return 250

    def _connected(self) -> smtplib.SMTP:
        assert self.smtp is not None
        context = ssl.create_default_context()
        where = (self.smtp.host, self.smtp.port)
        if self.smtp.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(*where, timeout=_TIMEOUT_S, context=context)
        else:
            server = smtplib.SMTP(*where, timeout=_TIMEOUT_S)
        try:
            if self.smtp.security == "starttls":
                server.starttls(context=context)
            if self.smtp.user is not None:
                server.login(self.smtp.user, self.password or "")
        except BaseException:
            server.close()
            raise
        return server


def _reason(error: Exception) -> str:
    """What went wrong, without what the server says of accounts."""
    code = getattr(error, "smtp_code", None)
    return f"{type(error).__name__}, {code}" if code is not None else type(error).__name__


def _message(told: Mapping[str, Any], *, sender: str, to: str) -> EmailMessage:
    data, event = told["data"], str(told["event"])
    name = data.get("campaign") or data.get("plan_id")
    message = EmailMessage()
    message["From"], message["To"] = sender, to
    message["Subject"] = f"DISCO: {event}" + (f", {name}" if name else "")
    message["Message-ID"] = make_msgid(idstring=str(told["id"]), domain=sender.rpartition("@")[2])
    sentences = [str(data[key]) for key in ("words", "reason") if key in data]
    figures = [f"{key}: {_text(value)}" for key, value in data.items() if key not in ("words", "reason")]
    message.set_content("\n".join([*sentences, *([""] if sentences else []), *figures, f"at: {told['at']}"]) + "\n")
    return message


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
