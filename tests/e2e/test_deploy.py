"""docs/deploy.md is true: units, proxies, SQL, settings and commands; and a restored shop is the shop."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import service_shop
import typer
import yaml
from fastapi.testclient import TestClient
from trial_server import TrialServer

from disco.adapters.config import ShopSettings, load_settings
from disco.entrypoints.cli.app import make_app
from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import create_app
from disco.entrypoints.worker import run_worker
from disco.office.approvals.use_cases import approve_plan
from disco.office.audit.use_cases import verify_journal
from disco.office.drafts.use_cases import get_draft, put_draft
from disco.office.jobs import use_cases as jobs
from disco.office.keys.use_cases import create_key, revoke_key
from disco.office.people.rows import PeopleRows
from disco.office.people.use_cases import first_invitation, invite
from disco.office.schedules.use_cases import add_schedule, list_schedules
from disco.office.sign_in.use_cases import accept_invitation, sign_in_external
from disco.office.webhooks.use_cases import add_webhook
from disco.records.errors import DiscoError
from disco.records.jobs import Event, JobKind
from disco.records.people import Actor, ActorKind
from disco.web.logs import Metrics

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
API = "/api/v1"
PASSWORD = "correct horse battery staple"


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found, language
    return found


UNITS = {
    re.search(r"^Description=(.*)$", unit, re.MULTILINE)[1]: unit  # type: ignore[index]
    for unit in re.findall(r"^```ini\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
}


# ---- what the page says ----


def test_every_unit_is_one(tmp_path: Path) -> None:
    names = {
        "DISCO service": "disco-serve.service",
        "DISCO worker %i": "disco-worker@.service",
        "Backup of the DISCO shop": "disco-backup.service",
        "Daily backup of the DISCO shop": "disco-backup.timer",
    }
    assert set(UNITS) == set(names)
    assert all(f"/etc/systemd/system/{name}" in PAGE for name in names.values())
    program = tmp_path / "disco"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for description, text in UNITS.items():
        sections = [line for line in text.splitlines() if line.startswith("[")]
        assert set(sections) <= {"[Unit]", "[Service]", "[Timer]", "[Install]"}
        for line in text.splitlines():
            assert not line.strip() or line.startswith("[") or re.fullmatch(r"[A-Z][A-Za-z]+=.*", line), line
        if "[Service]" in sections:
            assert {"NoNewPrivileges=yes", "ProtectSystem=strict", "UMask=0077"} <= set(text.splitlines())
        (tmp_path / names[description]).write_text(text.replace("/opt/disco/.venv/bin/disco", str(program)))
    if shutil.which("systemd-analyze") is None:
        return
    asked = [str(tmp_path / name).replace("@.", "@1.") for name in names.values()]
    (tmp_path / "disco-worker@1.service").symlink_to(tmp_path / "disco-worker@.service")
    done = subprocess.run(["systemd-analyze", "verify", *asked], capture_output=True, text=True, check=False)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "disco" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_every_configuration_of_a_proxy_can_be_read(tmp_path: Path) -> None:
    [nginx], [caddy] = blocks("nginx"), blocks("caddy")
    for text in (nginx, caddy):
        depth = 0
        for line in text.splitlines():
            depth += line.count("{") - line.count("}") if not line.strip().startswith("#") else 0
            assert depth >= 0
            if text is nginx and line.strip():
                assert line.rstrip().endswith((";", "{", "}")), line
        assert depth == 0
        assert "127.0.0.1:8080" in text
    headers = dict(re.findall(r"proxy_set_header (\S+) (\S+);", nginx))
    assert headers["X-Forwarded-For"] == "$remote_addr", "what a client sent must not be passed on"
    assert headers["X-Forwarded-Proto"] == "$scheme"
    assert headers["Host"] == "$host"
    bounds = "client_header_timeout client_body_timeout large_client_header_buffers limit_conn client_max_body_size"
    assert all(re.search(rf"^ +{name} .*;$", nginx, re.MULTILINE) for name in bounds.split())
    assert "proxy_request_buffering off" not in nginx, "slow bodies would wait in the service"
    assert all(name in caddy for name in ("read_header", "read_body", "max_header_size", "max_size"))
    if (program := shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")) is not None:
        key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
        subprocess.run(
            [
                *["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"],
                "-keyout",
                key,
                "-out",
                certificate,
            ],
            check=True,
            capture_output=True,
        )
        text = nginx.replace("/etc/ssl/disco/fullchain.pem", str(certificate))
        text = text.replace("/etc/ssl/disco/privkey.pem", str(key))
        whole = f"pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}} http {{ access_log off; {text} }}"
        (tmp_path / "nginx.conf").write_text(whole)
        subprocess.run([program, "-t", "-p", tmp_path, "-c", tmp_path / "nginx.conf"], check=True, capture_output=True)
    if (program := shutil.which("caddy")) is not None:
        (tmp_path / "Caddyfile").write_text(caddy)
        command = [program, "validate", "--adapter", "caddyfile", "--config", tmp_path / "Caddyfile"]
        subprocess.run(command, check=True, capture_output=True)


def test_the_settings_are_ones_and_every_setting_that_is_named_exists(tmp_path: Path) -> None:
    text, _ = blocks("yaml")
    (tmp_path / "disco.yaml").write_text(text)
    settings = load_settings(tmp_path, environment={})
    assert settings.service.public_url == "https://disco.example.com"
    assert set(yaml.safe_load(text)["service"]) <= set(type(settings.service).model_fields)
    for section, name in re.findall(r"`(service|oidc)\.(\w+)`", PAGE):
        field = ShopSettings.model_fields[section]
        kinds = [field.annotation, *getattr(field.annotation, "__args__", ())]
        assert any(name in getattr(kind, "model_fields", {}) for kind in kinds), name
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for variable in re.findall(r"\bDISCO_[A-Z_]+", PAGE):
        named = variable.removesuffix("_FILE")
        setting = named.removeprefix("DISCO_").lower()
        assert setting in ShopSettings.model_fields or f'"{named}"' in sources, variable


def test_the_rules_of_alerts_name_metrics_that_exist() -> None:
    _, text = blocks("yaml")
    asked = [rule["expr"] for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    metrics = Metrics()
    metrics.answered(method="POST", route="/api/v1/campaigns/{name}/late", status=200, seconds=0.01)
    there = metrics.text().decode()
    named = {name for expression in asked for name in re.findall(r"\bdisco_\w+", expression)}
    assert len(named) >= 3
    assert all(re.search(rf"^{name}\b", there, re.MULTILINE) for name in named)


def test_the_compose_file_names_what_the_image_and_the_program_have() -> None:
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
    known = typer.main.get_command(make_app()).commands  # type: ignore[attr-defined]
    services = compose["services"]
    assert services["serve"]["command"][0] in known
    assert services["worker"]["command"][0] in known
    for service in services.values():
        assert service["read_only"]
        assert set(service["secrets"]) <= set(compose["secrets"])
        assert {volume.partition(":")[0] for volume in service["volumes"]} <= set(compose["volumes"])
    containerfile = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER 10001:10001$", containerfile, re.MULTILINE)


def test_every_command_and_option_on_the_page_exists() -> None:
    commands = re.findall(r"(?:^    |bin/|`)(disco [^\n`']*)", PAGE, re.MULTILINE)
    assert len(commands) >= 15
    for line in commands:
        words = shlex.split(line.split(" > ")[0].replace("$(date +%%F)", "today"), comments=True)[1:]
        command: Any = typer.main.get_command(make_app())
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert command.name != "disco", line
        known = {option for parameter in command.params for option in parameter.opts}
        used = {word for word in words if word.startswith("-")}
        assert used <= known, line


def test_the_sql_makes_a_role_and_a_database_that_can_be_used(postgres: TrialServer, tmp_path: Path) -> None:
    [sql] = blocks("sql")
    statements = [one.strip() for one in sql.split(";") if one.strip()]
    for statement in statements:
        postgres.execute(statement)
    try:
        url = postgres.url("shop").replace("postgres@", "disco@")
        (tmp_path / "disco.yaml").write_text(f"database_url: {url}\n")
        Shop.open(tmp_path).upgrade()
        assert {one.check for one in Shop.open(tmp_path).doctor().failed} <= {"durability", "tables", "network"}
        postgres.execute("CREATE ROLE stranger LOGIN")
        with pytest.raises(psycopg.OperationalError, match="permission denied"):
            psycopg.connect(url.replace("disco@", "stranger@")).close()
    finally:
        postgres.execute("DROP DATABASE shop")
        postgres.execute("DROP ROLE disco")
        postgres.execute("DROP ROLE IF EXISTS stranger")


# ---- backup and restore ----


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return service_shop.learned(tmp_path_factory.mktemp("deployed") / "shop")


@contextmanager
def served(folder: Path) -> Iterator[TestClient]:
    with TestClient(create_app(Shop.open(folder)), base_url="http://localhost", raise_server_exceptions=False) as one:
        yield one


def populate(folder: Path) -> dict[str, str]:
    """People, keys, approvals, webhooks, schedules, drafts and jobs; the secrets of some of them."""
    shop = Shop.open(folder)
    planned = shop.plan(folder / "second.yaml")
    with shop.store() as store:
        clock = shop.clock
        first = first_invitation(store, clock)
        assert first is not None
        accept_invitation(store, first.token, password=PASSWORD, name="Ada", clock=clock)
        admin = store.by(Actor("Ada", ActorKind.PERSON))
        link = invite(admin, name="Grace", role="approver", email="grace@example.com", clock=clock)
        accept_invitation(store, link.token, password=PASSWORD, clock=clock)
        sign_in_external(store, issuer="https://id", subject="7", name="Olga", role="viewer", clock=clock)
        approve_plan(store.by(Actor("Grace", ActorKind.PERSON)), planned.plan_id, clock=clock)
        key = create_key(admin, name="crm", role="planner", expires=None, clock=clock)
        revoked = create_key(admin, name="old", role="admin", expires=None, clock=clock)
        revoke_key(admin, revoked.id, clock)
        hook = add_webhook(admin, url="https://shop.example/hook", events=tuple(Event), clock=clock)
        add_schedule(admin, kind=JobKind.CONTEXTS, body={}, rule="daily at 05:30", clock=clock)
        put_draft(admin, "spring", {"campaign": "spring", "note": "für später"}, clock=clock)
        jobs.submit(admin, JobKind.VALIDATE, {}, clock=clock)
    run_worker(Shop.open(folder), until_idle=True, send=lambda *_: 200)
    return {
        "key": key.key,
        "revoked": revoked.key,
        "webhook": hook.secret,
        "hook": hook.webhook.id,
        "plan": planned.plan_id,
    }


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_restored_shop_has_its_people_keys_and_plans_and_doctor_passes(
    lived: Path, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    new_url: Callable[[], str] | None = request.getfixturevalue("new_postgres_url") if kind == "postgresql" else None

    def folder(name: str) -> Path:
        made = tmp_path / name
        made.mkdir()
        if new_url is not None:
            (made / "disco.yaml").write_text(f"database_url: {new_url()}\n")
        return made

    if new_url is None:
        source = Path(shutil.copytree(lived, tmp_path / "shop"))
    else:  # the same shop on PostgreSQL
        Shop.open(lived).backup(tmp_path / "lived.tar.gz")
        source = folder("shop")
        Shop.restore(tmp_path / "lived.tar.gz", source)
        shutil.copytree(lived / "data", source / "data")
        shutil.copy(lived / "second.yaml", source)
    secrets = populate(source)
    with served(source) as client:
        headers = {"authorization": f"Bearer {secrets['key']}"}
        before = {
            path: client.get(f"{API}/{path}", headers=headers).json() for path in ("campaigns", "plans", "drafts")
        }
        assert client.post("/sign-in", json={"name": "Ada", "password": PASSWORD}).status_code == 200
        session = dict(client.cookies)
    Shop.open(source).backup(tmp_path / "shop.tar.gz")

    restored = folder("restored")
    Shop.restore(tmp_path / "shop.tar.gz", restored)
    shutil.copytree(source / "data", restored / "data")
    shop = Shop.open(restored)
    found = shop.doctor()
    # the trial server does not sync, which is named; nothing else is wrong
    assert {one.check for one in found.failed} <= ({"durability"} if kind == "postgresql" else set()), found.failed
    with shop.store() as store:
        assert verify_journal(store).ok
        with store.reading() as transaction:
            assert {one.name for one in PeopleRows(transaction).all()} == {"Ada", "Grace", "Olga"}
            assert transaction.webhooks.secret(secrets["hook"]) == secrets["webhook"]
        assert [one.rule for one in list_schedules(store).items] == ["daily at 05:30"]
        assert get_draft(store, "spring").plan["note"] == "für später"
        again = sign_in_external(store, issuer="https://id", subject="7", name="x", role="viewer", clock=shop.clock)
        assert again.name == "Olga"
    with served(restored) as client:
        after = {path: client.get(f"{API}/{path}", headers=headers).json() for path in before}
        assert after == before
        assert (
            client.get(f"{API}/campaigns", headers={"authorization": f"Bearer {secrets['revoked']}"}).status_code == 401
        )
        assert client.get("/me", cookies=session).status_code == 401, "sessions are not in a backup"
        client.cookies.clear()
        assert client.post("/sign-in", json={"name": "Grace", "password": PASSWORD}).json()["role"] == "approver"
        client.cookies.clear()
        # the plan that was approved before can be launched, by the key that was made before
        launched = client.post(f"{API}/campaigns/second/launch", json={"plan_id": secrets["plan"]}, headers=headers)
        assert launched.status_code == 200, launched.text
    assert shop.doctor().failed == found.failed


def test_a_restore_never_replaces_a_shop(lived: Path, tmp_path: Path) -> None:
    Shop.open(lived).backup(tmp_path / "shop.tar.gz")
    other = Path(shutil.copytree(lived, tmp_path / "other"))
    with pytest.raises(DiscoError, match="is in use, and a restore never replaces one"):
        Shop.restore(tmp_path / "shop.tar.gz", other)
