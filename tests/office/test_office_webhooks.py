"""Webhooks are told what was kept and nothing else, signed, to allowed addresses alone, again after a failure."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from job_steps import Clock
from small_life import CAMPAIGN, launch_small, planned
from stores import on_both_databases, open_store

import disco
from disco.office.jobs import use_cases as jobs
from disco.office.webhooks import use_cases as webhooks
from disco.office.webhooks.delivery import HttpSender, is_public
from disco.office.webhooks.signatures import sign
from disco.operations import outbox
from disco.operations.launch import pause, resume
from disco.operations.plan import keep
from disco.records.errors import (
    DeliveryError,
    ForbiddenAddressError,
    InputError,
    NotFoundError,
    SealError,
    SignatureError,
)
from disco.records.jobs import Event, Job, JobKind, JobState
from disco.store import JOBS, Store


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    store = open_store(store_url)
    yield store
    store.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def told(store: Store) -> list[Job]:
    return list(jobs.list_jobs(store, kind=JobKind.WEBHOOK).items)[::-1]


@on_both_databases
def test_a_webhook_is_made_with_a_secret_that_is_shown_once(store: Store, clock: Clock) -> None:
    made = webhooks.add_webhook(store, url="https://example.com/a", events=["plan.ready"], clock=clock)
    assert made.secret.startswith("whsec_")
    listed = webhooks.list_webhooks(store)
    assert listed.items == (made.webhook,)
    assert made.secret not in listed.to_json()
    assert not webhooks.set_webhook_active(store, made.webhook.id, active=False).active
    webhooks.remove_webhook(store, made.webhook.id[:6])
    with pytest.raises(NotFoundError, match="no webhook"):
        webhooks.remove_webhook(store, made.webhook.id)


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.com", "ftp://example.com", "file:///etc/passwd", "http://", "https://user:pass@example.com/"),
        *("http://exa mple.com", "http://[::1", "http://example.com:99999", "https://example.com/#x", "http://x\\y"),
        "https://example.com/" + "x" * 2000,
    ],
)
def test_other_urls_are_refused_and_their_passwords_not_shown(store: Store, clock: Clock, url: str) -> None:
    with pytest.raises(InputError, match="URL of a webhook") as refused:
        webhooks.add_webhook(store, url=url, events=["plan.ready"], clock=clock)
    assert "pass@" not in str(refused.value)
    for wrong in ([], ["plan.eaten"]):
        with pytest.raises(InputError, match="of a webhook"):
            webhooks.add_webhook(store, url="https://example.com", events=wrong, clock=clock)


@on_both_databases
def test_a_campaign_tells_what_happens_in_the_transactions_that_do_it(store: Store, clock: Clock) -> None:
    webhooks.add_webhook(store, url="https://example.com/all", events=list(Event), clock=clock)
    one = webhooks.add_webhook(store, url="https://example.com/one", events=["campaign.paused"], clock=clock)
    off = webhooks.add_webhook(store, url="https://example.com/off", events=list(Event), clock=clock)
    webhooks.set_webhook_active(store, off.webhook.id, active=False)
    plan = planned(store, customers=80)
    for _ in range(2):  # the same plan again is no news
        keep(store, plan)
    for again in (False, True):
        assert launch_small(store, customers=80) is again
    pause(store, CAMPAIGN, clock=clock)
    pause(store, CAMPAIGN, clock=clock)
    resume(store, CAMPAIGN)
    found = [(job.body["event"], job.body["data"]) for job in told(store)]
    ready = {"plan_id": plan.plan_id, "campaign": CAMPAIGN, "customers": 80}
    assert found[:2] == [("plan.ready", ready), ("campaign.launched", ready)]
    assert found[2:] == [("campaign.paused", {"campaign": CAMPAIGN})] * 2
    assert [job.body["webhook"] for job in told(store)].count(one.webhook.id) == 1


@on_both_databases
def test_what_is_undone_is_not_told(store: Store, clock: Clock) -> None:
    webhooks.add_webhook(store, url="https://example.com", events=list(Event), clock=clock)
    with suppress(ZeroDivisionError), store.writing(JOBS, action="test") as transaction:
        outbox.tell(transaction, Event.CHECK_FAILED, {}, actor=store.actor, now=clock.now())
        raise ZeroDivisionError
    with store.writing(JOBS, action="test", dry_run=True) as transaction:
        outbox.tell(transaction, Event.CHECK_FAILED, {}, actor=store.actor, now=clock.now())
    assert told(store) == []
    for _ in range(2):
        with store.writing(JOBS, action="test") as transaction:
            outbox.tell(transaction, Event.CHECK_FAILED, {}, actor=store.actor, now=clock.now(), once="check:1")
    assert len(told(store)) == 1


# ---- a receiver that uses the documented check ----


class Receiver:
    """Processes each delivery once; keeps what came, and answers with `status` first where that is set."""

    def __init__(self, secret: str, clock: Clock) -> None:
        self.secret, self.clock = secret, clock
        self.came: list[tuple[bytes, dict[str, str]]] = []
        self.processed: list[str] = []
        self.status: int | None = None

    def take(self, body: bytes, headers: dict[str, str]) -> int:
        self.came.append((body, headers))
        if self.status is not None:
            return self.status
        try:
            event = disco.verify_webhook(body, headers.get("Disco-Signature"), self.secret, now=self.clock.now())
        except disco.errors.SignatureError:
            return 400
        if event["id"] not in self.processed:
            self.processed.append(event["id"])
        return 200


@contextmanager
def listening(receiver: Receiver) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(receiver.take(body, dict(self.headers)))
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()  # looks for its end
        try:
            yield f"http://localhost:{server.server_address[1]}/hook?shop=1"
        finally:
            server.shutdown()


def delivery(store: Store, clock: Clock) -> Job:
    job = jobs.claim(store, worker="one", clock=clock, kinds={JobKind.WEBHOOK}, most_attempts=6)
    assert job is not None
    return job


def test_a_receiver_with_the_documented_check_refuses_what_was_altered_and_repeated(store: Store, clock: Clock) -> None:
    receiver = Receiver("", clock)
    with listening(receiver) as url:
        made = webhooks.add_webhook(store, url=url, events=["campaign.paused"], clock=clock)
        receiver.secret = made.secret
        launch_small(store, customers=80)
        pause(store, CAMPAIGN, clock=clock)
        job, send = delivery(store, clock), HttpSender(private=True)
        assert webhooks.deliver(store, job, send=send, clock=clock).status == 200
        ((body, headers),) = receiver.came
        assert json.loads(body) == {
            "id": job.id,
            "event": "campaign.paused",
            "at": clock.now().isoformat(),
            "data": {"campaign": CAMPAIGN},
        }
        assert headers["Disco-Delivery"] == job.id
        assert headers["Host"] == url.split("/")[2]
        assert receiver.processed == [job.id]

        def attack(body: bytes, **changed: str) -> int:
            return send(url, {**headers, **{name.replace("_", "-"): value for name, value in changed.items()}}, body)

        kept = headers["Disco-Signature"]
        clock.wait(seconds=10)
        assert attack(body) == 200, "a repetition within the tolerance is answered"
        assert receiver.processed == [job.id], "and not processed again"
        assert attack(body.replace(b"drill", b"krill")) == 400
        assert attack(body.replace(job.id.encode(), b"0" * 16), Disco_Delivery="0" * 16) == 400
        later = f"t={int(clock.now().timestamp())}," + kept.split(",")[1]
        assert attack(body, Disco_Signature=later) == 400, "the moment is signed, too"
        assert attack(body, Disco_Signature=sign(body, "another secret", at=clock.now())) == 400
        assert attack(body, Disco_Signature="") == 400
        clock.wait(seconds=300)
        assert attack(body) == 400, "an old one may be a repetition"
        assert receiver.processed == [job.id]


@pytest.mark.parametrize("status", [302, 307, 404, 500])
def test_a_receiver_that_does_not_answer_with_success_is_asked_again_with_growing_pauses(
    store: Store, clock: Clock, status: int
) -> None:
    receiver = Receiver("", clock)
    receiver.status = status
    with listening(receiver) as url:
        webhooks.add_webhook(store, url=url, events=["check.failed"], clock=clock)
        with store.writing(JOBS, action="test") as transaction:
            outbox.tell(transaction, Event.CHECK_FAILED, {}, actor=store.actor, now=clock.now())
        pauses = []
        while (waiting := told(store)[0]).state is JobState.QUEUED:
            clock.moment = waiting.due_at
            job = delivery(store, clock)
            with pytest.raises(DeliveryError, match=f"status {status}") as refused:
                webhooks.deliver(store, job, send=HttpSender(private=True), clock=clock)
            again = webhooks.pause_before(job.attempts, job.id)
            assert jobs.fail(store, job, refused.value, clock=clock, retry_in=again)
            pauses += [] if again is None else [again.total_seconds()]
        assert len(receiver.came) == 6, "no redirect is followed"
    assert all(least <= pause <= 1.2 * least for pause, least in zip(pauses, webhooks.BACKOFF_S, strict=True))
    failed = told(store)[0]
    assert (failed.state, failed.attempts) == (JobState.FAILED, 6)
    assert failed.problem is not None
    assert failed.problem.error == "DeliveryError"
    assert len({headers["Disco-Delivery"] for _, headers in receiver.came}) == 1


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "10.0.0.1",
            "172.16.3.4",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
        ),
        *("255.255.255.255", "::1", "::", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::a00:1"),
        *("2002:7f00:1::", "2001:db8::1", "240.0.0.1", "224.0.0.1", "fec0::1", "not an address"),
    ],
)
def test_private_addresses_are_refused(address: str) -> None:
    assert not is_public(address)
    for places in ([address], ["93.184.216.34", address]):  # one of several is enough
        sender = HttpSender(resolve=lambda host, port, places=places: places)
        with pytest.raises(ForbiddenAddressError, match=r"private address.*webhooks_private"):
            sender("https://example.com/", {}, b"")


def test_public_addresses_are_public() -> None:
    for address in ("93.184.216.34", "1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"):
        assert is_public(address), address


def test_the_connection_goes_to_the_address_that_was_checked(clock: Clock) -> None:
    receiver, asked = Receiver("", clock), []
    receiver.status = 204
    with listening(receiver) as url:
        port = int(url.split(":")[2].split("/")[0])

        def rebinding(host: str, at: int) -> list[str]:
            asked.append(host)
            return ["127.0.0.1"] if len(asked) == 1 else ["203.0.113.1"]

        sender = HttpSender(private=True, resolve=rebinding)
        assert sender(f"http://shop.example:{port}/x", {}, b"{}") == 204
    assert asked == ["shop.example"]
    assert receiver.came[0][1]["Host"] == f"shop.example:{port}"


@on_both_databases
def test_a_webhook_that_another_program_changed_is_told_nothing(store: Store, clock: Clock) -> None:
    webhooks.add_webhook(store, url="https://shop.example/hook", events=[Event.CAMPAIGN_PAUSED], clock=clock)
    launch_small(store, customers=80)
    pause(store, CAMPAIGN, clock=clock)
    with store._database.writing("test") as connection:
        connection.exec_driver_sql("UPDATE webhooks SET url = 'https://evil.example/'")
    sent: list[str] = []
    with pytest.raises(SealError, match=r"webhook .* was changed"):
        webhooks.deliver(store, delivery(store, clock), send=lambda url, *_: sent.append(url) or 200, clock=clock)
    assert sent == []
    with store.reading() as transaction:
        assert [str(one.what) for one in transaction.seals.broken()] == ["webhook"]


def test_a_receiver_that_is_away_or_unknown_is_a_failed_delivery() -> None:
    with pytest.raises(DeliveryError, match="did not answer"):
        HttpSender(private=True, timeout_s=1)("http://127.0.0.1:1/", {}, b"")

    def unknown(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(DeliveryError, match="not known"):
        HttpSender(resolve=unknown)("http://nowhere.invalid/", {}, b"")


@pytest.mark.parametrize("sends", [b"HTTP/1.1 200 OK\r\nX: ", b""])
def test_a_receiver_that_sends_byte_after_byte_holds_nobody_beyond_the_deadline(sends: bytes) -> None:
    """A limit per read would begin anew with every byte."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(sends)
                for _ in range(600):
                    connection.sendall(b"x")
                    time.sleep(0.05)

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        began = time.monotonic()
        with pytest.raises(DeliveryError, match="did not answer"):
            HttpSender(private=True, timeout_s=0.5)(f"http://127.0.0.1:{server.getsockname()[1]}/", {}, b"{}")
        assert time.monotonic() - began < 10
        thread.join(35)
        assert not thread.is_alive()


def test_proxies_of_the_environment_are_not_used(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    receiver = Receiver("", clock)
    receiver.status = 200
    with listening(receiver) as url:
        assert HttpSender(private=True)(url, {}, b"{}") == 200


SHARED = "whsec_a-secret-as-long-as-those-that-are-made"


@pytest.mark.parametrize("secret", ["", " ", "secret", "x" * 31])
def test_a_receiver_without_a_real_secret_takes_no_delivery(clock: Clock, secret: str) -> None:
    header = sign(b'{"id": "1"}', secret, at=clock.now())
    with pytest.raises(SignatureError, match="expected the secret of the webhook, which has at least 32 characters"):
        disco.verify_webhook(b'{"id": "1"}', header, secret, now=clock.now())


def test_the_check_refuses_what_is_no_signature_or_no_event(clock: Clock) -> None:
    for header in (None, "", "t=1", "v1=00", "t=x,v1=" + "0" * 64, "t=1,v1=" + "g" * 64):
        with pytest.raises(SignatureError, match="missing or cannot be read"):
            disco.verify_webhook(b"{}", header, SHARED, now=clock.now())
    with pytest.raises(SignatureError, match="no event"):
        disco.verify_webhook(b"[]", sign(b"[]", SHARED, at=clock.now()), SHARED, now=clock.now())
    ahead = sign(b"{}", SHARED, at=clock.now() + timedelta(hours=1))
    with pytest.raises(SignatureError, match="from now"):
        disco.verify_webhook(b"{}", ahead, SHARED, now=clock.now())
    assert disco.verify_webhook(b"{}", ahead, SHARED, now=clock.now(), tolerance=4000) == {}
