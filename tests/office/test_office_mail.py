"""People are told by e-mail, through a real SMTP server; a failure is tried again and holds no other job up."""

import asyncio
import email
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path

import pytest
from job_steps import Clock
from small_life import CAMPAIGN, launch_small
from stores import open_store

from disco.adapters.config import SmtpSettings
from disco.entrypoints.python import Shop
from disco.entrypoints.worker import run_worker
from disco.office.jobs import use_cases as jobs
from disco.office.webhooks import use_cases as webhooks
from disco.office.webhooks.mail import MailSender, read_address
from disco.operations.launch import pause
from disco.records.errors import DeliveryError, InputError
from disco.records.jobs import Event, JobKind, JobState
from disco.store import Store


class MailServer:
    """SMTP as far as a client needs it; `answer` is what it says to a whole mail."""

    def __init__(self) -> None:
        self.answer, self.mails, self.recipients = "250 kept", list[Message](), list[str]()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example\r\n")
        while line := await reader.readline():
            word = line.strip().upper()
            if word == b"DATA":
                writer.write(b"354 go on\r\n")
                content = b""
                while (part := await reader.readline()) != b".\r\n":
                    content += part
                if self.answer.startswith("250"):
                    self.mails.append(email.message_from_bytes(content))
                writer.write(f"{self.answer}\r\n".encode())
            elif word == b"QUIT":
                writer.write(b"221 bye\r\n")
                break
            else:
                if word.startswith(b"RCPT TO"):
                    self.recipients.append(line.decode().partition(":")[2].strip(" <>\r\n"))
                writer.write(b"250 mail.example\r\n")
            await writer.drain()
        writer.close()


@contextmanager
def mail_server() -> Iterator[MailServer]:
    server, loop, begun = MailServer(), asyncio.new_event_loop(), threading.Event()

    def run() -> None:
        async def begin() -> asyncio.Server:
            return await asyncio.start_server(server.serve, "127.0.0.1", 0)

        listening = loop.run_until_complete(begin())
        server.port = listening.sockets[0].getsockname()[1]
        begun.set()
        loop.run_forever()
        listening.close()
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert begun.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def sender_to(port: int) -> MailSender:
    return MailSender(SmtpSettings(host="127.0.0.1", port=port, sender="disco@shop.example", security="none"))


def test_a_pause_is_mailed_and_tried_again_where_the_server_refuses_at_first(store_url: str) -> None:
    store, clock = open_store(store_url), Clock()
    made = webhooks.add_webhook(
        store, url="mailto:buyer@shop.example", events=[Event.CAMPAIGN_PAUSED], clock=clock
    ).webhook
    assert made.url == "mailto:buyer@shop.example"
    launch_small(store, customers=80)
    pause(store, CAMPAIGN, clock=clock)
    with mail_server() as server:
        server.answer = "451 try later"
        job = jobs.claim(store, worker="one", clock=clock, kinds={JobKind.WEBHOOK}, most_attempts=6)
        assert job is not None
        with pytest.raises(DeliveryError, match="did not take the mail") as refused:
            webhooks.deliver(store, job, send=sender_to(server.port), clock=clock)
        assert "451" in str(refused.value)
        server.answer = "250 kept"
        assert webhooks.deliver(store, job, send=sender_to(server.port), clock=clock).status == 250
        (mail,) = server.mails
        assert (mail["To"], mail["From"]) == ("buyer@shop.example", "disco@shop.example")
        assert mail["Subject"] == f"DISCO: campaign.paused, {CAMPAIGN}"
        assert f"campaign: {CAMPAIGN}" in str(mail.get_payload())
        assert set(server.recipients) == {"buyer@shop.example"}
        closed = server.port
    with pytest.raises(DeliveryError, match="ConnectionRefusedError"):
        webhooks.deliver(store, job, send=sender_to(closed), clock=clock)
    with pytest.raises(DeliveryError, match="The setting `smtp` names no server"):
        webhooks.deliver(store, job, send=MailSender(None), clock=clock)
    store.close()


def test_the_worker_mails_and_a_refusal_holds_up_no_other_job(tmp_path: Path) -> None:
    with mail_server() as server:
        smtp = f"smtp: {{host: 127.0.0.1, port: {server.port}, sender: disco@shop.example, security: none}}\n"
        (tmp_path / "disco.yaml").write_text(smtp, encoding="utf-8")
        shop = Shop.open(tmp_path)
        with shop.store(missing="create") as store:
            webhooks.add_webhook(
                store, url="mailto:buyer@shop.example", events=[Event.CAMPAIGN_PAUSED], clock=shop.clock
            )
            launch_small(store, customers=80)
            pause(store, CAMPAIGN, clock=shop.clock)
            other = jobs.submit(store, "check", {"campaign": "nobody"}, clock=shop.clock)
        server.answer = "451 try later"
        run_worker(shop, until_idle=True, poll_s=0.05)
        with shop.store() as store:
            (mail,) = jobs.list_jobs(store, kind=JobKind.WEBHOOK).items
            assert mail.state is JobState.QUEUED
            assert mail.problem is not None
            assert "did not take the mail" in mail.problem.message
            assert jobs.get_job(store, other.id).is_final
        server.answer = "250 kept"
        deadline = time.monotonic() + 60
        while not server.mails and time.monotonic() < deadline:  # further attempts are due seconds later
            run_worker(shop, until_idle=True, poll_s=0.05)
            time.sleep(0.1)
        assert [one["To"] for one in server.mails] == ["buyer@shop.example"]


@pytest.mark.parametrize(
    "url", ["mailto:", "mailto:nobody", "mailto:a@b?cc=c@d", "mailto:a@b\nBcc: c@d", "mailto:a b@c"]
)
def test_addresses_that_are_none_are_refused(store_url: str, url: str) -> None:
    with pytest.raises(InputError, match="address of a mail"):
        read_address(url)
    store: Store = open_store(store_url)
    with pytest.raises(InputError):
        webhooks.add_webhook(store, url=url, events=[Event.CAMPAIGN_PAUSED], clock=Clock())
    store.close()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"host": "mail..example"}, "did not take the mail"),
        ({"host": "127.0.0.1", "user": "disco"}, "The setting `smtp.user` has no password"),
    ],
)
def test_a_server_that_cannot_be_asked_is_a_delivery_to_be_tried_again(given: dict[str, str], words: str) -> None:
    smtp = SmtpSettings(**given, port=1, sender="disco@shop.example", security="none")
    told = b'{"id": "a", "event": "campaign.paused", "at": "2027-03-08", "data": {"campaign": "spring"}}'
    with pytest.raises(DeliveryError, match=words):
        MailSender(smtp)("mailto:buyer@shop.example", {}, told)
