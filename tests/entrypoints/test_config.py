"""Settings: file, then environment, then flags; unknown names refused with the nearest one."""

import ast
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pydantic import BaseModel
from spark_cluster import require_spark

import disco
from disco.adapters.config import FILE, ShopSettings, load_settings
from disco.entrypoints.python import Shop
from disco.office.settings.file import change_settings
from disco.operations.training import train_context
from disco.records.chunks import processors
from disco.records.errors import InputError, MissingPartError, PlanError, UsageError
from disco.records.locale import Locale

FIRST = """
campaign: first
customers: {table: customers, eligible: "country = 'GB'", as_of: 2025-09-01}
depths: {0.10: {at_most: 30%}}
objective: {revenue_weight: 3}
valid: {from: 2025-09-01, days: 30}
seed: 7
"""


def write(folder: Path, text: str) -> Path:
    (folder / "disco.yaml").write_text(text)
    return folder


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load_settings(tmp_path, environment={}) == ShopSettings()


def test_a_secret_may_stand_in_a_file_that_the_environment_names(tmp_path: Path) -> None:
    secret = tmp_path / "database_url"
    secret.write_text("postgresql://disco:s3cret@db/shop\n")
    environment = {"DISCO_DATABASE_URL_FILE": str(secret)}
    assert load_settings(tmp_path, environment=environment).database_url == "postgresql://disco:s3cret@db/shop"
    environment["DISCO_DATABASE_URL"] = "sqlite:///other.db"
    assert load_settings(tmp_path, environment=environment).database_url == "sqlite:///other.db"
    with pytest.raises(MissingPartError, match=r"DISCO_DATABASE_URL_FILE cannot be read: found .*who may read it"):
        load_settings(tmp_path, environment={"DISCO_DATABASE_URL_FILE": str(tmp_path / "none")})


def test_environment_overrides_the_file_and_flags_override_both(tmp_path: Path) -> None:
    shop = write(tmp_path, "database_url: sqlite:///file.db\nthreads: 1\ndata: tables\n")
    environment = {"DISCO_DATABASE_URL": "sqlite:///environment.db", "DISCO_THREADS": "2"}
    settings = load_settings(shop, environment=environment, flags={"threads": 3, "engine": None})
    assert settings.data == "tables"
    assert settings.database_url == "sqlite:///environment.db"
    assert settings.threads == 3
    assert settings.engine == "local"


def test_every_problem_at_once_each_with_its_origin(tmp_path: Path) -> None:
    shop = write(tmp_path, "databse_url: x\nengine: spork\n")
    with pytest.raises(PlanError) as caught:
        load_settings(shop, environment={"DISCO_THREADS": "none"}, flags={})
    message = str(caught.value)
    assert "Did you mean database_url?" in message
    assert "'spork'; expected 'local'" in message
    assert "DISCO_THREADS" in message
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("text", ["- a\n- b\n", "data: [\n", "just words", "1: 2\n"])
def test_a_file_that_is_no_settings_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(PlanError, match=r"disco\.yaml"):
        load_settings(write(tmp_path, text), environment={})


def test_an_empty_file_and_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    assert load_settings(write(tmp_path, ""), environment={}) == ShopSettings()
    assert load_settings(write(tmp_path, "\ufeffdata: here\n"), environment={}).data == "here"


def test_tables_are_seen_from_the_shop_and_urls_are_not(tmp_path: Path) -> None:
    assert ShopSettings().data_place(tmp_path) == str(tmp_path / "data")
    assert ShopSettings(data="sqlite:///x.db").data_place(tmp_path) == "sqlite:///x.db"


def test_a_sqlite_file_is_seen_from_the_shop_and_other_databases_are_not(tmp_path: Path) -> None:
    assert ShopSettings().database_place(tmp_path) == f"sqlite:///{tmp_path / 'disco.db'}"
    for url in ("sqlite:////var/disco.db", "postgresql://me@host/disco", "sqlite://", "sqlite:///:memory:"):
        assert ShopSettings(database_url=url).database_place(tmp_path) == url


def test_an_unknown_key_of_a_section_is_named_with_its_neighbours(tmp_path: Path) -> None:
    shop = write(tmp_path, "model: {forgeting: 0.9, encoding: {kind: radial_basis, gama: 2}}\n")
    with pytest.raises(PlanError) as caught:
        load_settings(shop, environment={})
    message = str(caught.value)
    assert "Did you mean forgetting?" in message
    assert "Did you mean gamma?" in message


OIDC = "oidc: {issuer: 'https://id.example.com', client_id: disco, default_role: viewer"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("oidc: {issuer: 'http://id.example.com', client_id: disco, default_role: viewer}", "an https URL"),
        ("oidc: {issuer: 'https://id.example.com/?a=b', client_id: disco, default_role: viewer}", "an https URL"),
        ("oidc: {issuer: 'https://[', client_id: disco, default_role: viewer}", "an https URL"),
        ("oidc: {issuer: 'https://id.example.com', client_id: disco}", "neither roles nor default_role"),
        ("oidc: {issuer: 'https://id.example.com', default_role: viewer}", "oidc.client_id"),
        ("oidc: {issuer: 'https://id.example.com', client_id: disco, default_role: admin}", "oidc.default_role"),
        (OIDC + ", isuer: x}", "Did you mean issuer?"),
        (OIDC + ", client_secret: x}", "Did you mean client_secret_file?"),
        (OIDC + ", scopes: [profile]}", "openid and others"),
        (OIDC + ", roles: {staff: boss}}", "oidc.roles.staff"),
        (OIDC + ", email_domains: ['ada@example.com']}", "domains such as example.com"),
    ],
)
def test_settings_of_an_identity_provider_that_cannot_be_used(tmp_path: Path, changed: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        load_settings(write(tmp_path, changed), environment={})
    assert said in str(caught.value)


def test_the_client_secret_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, OIDC + ", client_secret_file: secret}"), environment={}).oidc
    assert settings is not None
    with pytest.raises(MissingPartError, match="cannot be read"):
        settings.client_secret(tmp_path, {})
    (tmp_path / "secret").write_text("of the file\n")
    assert settings.client_secret(tmp_path, {}) == "of the file"
    assert settings.client_secret(tmp_path, {"DISCO_OIDC_CLIENT_SECRET": "of the environment"}) == "of the environment"
    (tmp_path / "secret").write_text("\n")
    with pytest.raises(MissingPartError, match="DISCO_OIDC_CLIENT_SECRET"):
        settings.client_secret(tmp_path, {})


def fields_of(section: type[BaseModel]) -> list[str]:
    """The names of all settings, also of those inside sections."""
    names = []
    for name, field in section.model_fields.items():
        names.append(name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            names += fields_of(field.annotation)
    return names


def attributes_read() -> set[str]:
    """Every name that some line of the package outside config.py reads after a dot."""
    root = Path(disco.__file__).parent
    files = [path for path in root.rglob("*.py") if path.name != "config.py"]
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


def test_every_setting_is_read_somewhere() -> None:
    # the encoding's own parameters are handed over together (`settings.model_dump`)
    handed_over = {"centres", "gamma", "alpha", "reference", "depths"}
    # these two are read where they belong, by methods of ShopSettings that the shop calls
    by_method = {"data": "data_place", "database_url": "database_place"}
    read = attributes_read()
    unread = [name for name in fields_of(ShopSettings) if by_method.get(name, name) not in read | handed_over]
    assert unread == []


def test_every_setting_of_the_top_is_read_from_settings() -> None:
    text = "".join(
        path.read_text(encoding="utf-8")
        for path in Path(disco.__file__).parent.rglob("*.py")
        if path.name != "config.py"
    )
    places = {"data": "settings.data_place(", "database_url": "settings.database_place("}
    places |= dict.fromkeys(("columns", "csv", "lines"), "settings.written")
    places |= dict.fromkeys(("model", "engagement"), "settings.prior()")
    places |= dict.fromkeys(("currency", "time_zone"), "settings.locale")
    places |= dict.fromkeys(("forecast", "calendar"), "settings.rules")
    unread = [name for name in ShopSettings.model_fields if places.get(name, f"settings.{name}") not in text]
    assert unread == []


def test_threads_and_engine_reach_the_engine_of_the_shop(tmp_path: Path) -> None:
    assert Shop.open(tmp_path).engine.threads == processors()
    assert Shop.open(write(tmp_path, "threads: 1\n")).engine.threads == 1
    assert Shop.open(tmp_path, threads=2, engine="local").engine.threads == 2


@pytest.mark.parametrize("threads", ["0", "100000", "-3"])
def test_threads_that_the_machine_cannot_use_are_refused(tmp_path: Path, threads: str) -> None:
    with pytest.raises(PlanError) as caught:
        load_settings(write(tmp_path, f"threads: {threads}\n"), environment={})
    message = str(caught.value)
    assert f"found {threads}; expected a whole number from 1 to {4 * processors()}" in message
    assert "Leave it empty" in message


def test_an_engine_and_its_master(tmp_path: Path) -> None:
    read = load_settings(write(tmp_path, "engine: spark\nmaster: spark://one:7077\n"), environment={})
    assert (read.engine, read.master) == ("spark", "spark://one:7077")
    with pytest.raises(UsageError, match=r"--engine.*'local' or 'spark'"):
        load_settings(tmp_path / "elsewhere", environment={}, flags={"engine": "spork"})


def test_problems_of_flags_alone_are_wrong_usage_and_all_are_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_settings(tmp_path, environment={}, flags={"engine": "spork", "threads": 0})
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["--engine", "--threads"]
    with pytest.raises(PlanError) as mixed:
        load_settings(write(tmp_path, "threads: 0\n"), environment={}, flags={"engine": "spork"})
    assert len(mixed.value.problems) == 2


def test_a_master_without_spark_is_refused_in_the_words_of_the_caller(
    disco: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        Shop.open(tmp_path, master="local[2]")
    assert str(caught.value) == (
        "master: found 'local[2]'; expected none. Only the engine spark has a master: add engine=\"spark\"."
    )
    code, _, error = disco("learn", "first", "--shop", str(tmp_path), "--master", "local[2]")
    assert code == 2
    assert "--master: found 'local[2]'; expected none. Only the engine spark has a master: add --engine spark." in error


@pytest.mark.parametrize(
    "command",
    [
        ("features", "data", "--as-of", "2026-01-01", "-o", "features.parquet"),
        ("train", "context", "--tables", "data", "--window-start", "2026-01-01"),
        ("train", "basket", "--campaign", "first"),
        ("plan", "plan.yaml"),
        ("learn", "first"),
        ("allocate", "values.parquet", "--caps", "caps.yaml", "-o", "codes.parquet"),
    ],
    ids=" ".join,
)
def test_every_heavy_command_takes_a_master_and_says_when_it_cannot_be_reached(
    disco: Callable[..., tuple[int, str, str]],
    command: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_spark()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text(FIRST)
    (tmp_path / "caps.yaml").write_text("caps: {0.1: 1}\n")
    before = sorted(tmp_path.iterdir())
    code, _, error = disco(*command, "--engine", "spark", "--master", "spark://127.0.0.1:1")
    assert code == 1
    assert "The master spark://127.0.0.1:1 cannot be reached" in error
    assert sorted(tmp_path.iterdir()) == before


def test_a_shop_says_its_currency_and_its_time_zone(tmp_path: Path) -> None:
    assert load_settings(tmp_path, environment={}).locale == Locale()
    shop = write(tmp_path, "currency: eur\ntime_zone: Europe/Berlin\n")
    settings = load_settings(shop, environment={"DISCO_CURRENCY": "JPY"})
    assert (settings.locale.currency.code, settings.locale.time_zone) == ("JPY", "Europe/Berlin")
    assert settings.written.locale == settings.locale
    assert settings.written.fingerprint() != load_settings(shop, environment={}).written.fingerprint()


def test_an_unknown_currency_and_an_unknown_zone_are_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        load_settings(write(tmp_path, "currency: Euro\ntime_zone: Berlin\n"), environment={})
    message = str(caught.value)
    assert "currency: found 'Euro'; expected a code of ISO 4217, such as EUR. Did you mean EUR?" in message
    assert "time_zone: found 'Berlin'" in message
    assert "Did you mean Europe/Berlin?" in message


def test_today_is_the_day_it_is_in_the_shop(tmp_path: Path) -> None:
    late = datetime(2026, 12, 4, 23, 30, tzinfo=UTC)
    assert Shop.open(tmp_path, now=late).clock.today() == date(2026, 12, 4)
    assert Shop.open(tmp_path, now=late, time_zone="Europe/Berlin").clock.today() == date(2026, 12, 5)
    assert Shop.open(tmp_path, now=late, time_zone="America/New_York").clock.today() == date(2026, 12, 4)


@pytest.mark.parametrize(
    "text",
    [
        "engagement: {override: {0.2: 5}}",
        "engagement: {override: {0.2: -0.1}}",
        "engagement: {override: {7: 0.1}}",
        "model: {encoding: {kind: one_hot}}",
        "model: {encoding: {kind: one_hot, depths: []}}",
        "model: {encoding: {kind: one_hot, depths: [0.1, 0.1]}}",
        "model: {encoding: {kind: one_hot, depths: [0.1, 9]}}",
        "model: {encoding: {kind: linear, gamma: 2}}",
        "model: {encoding: {kind: radial_basis, gamma: 0}}",
        "model: {encoding: {kind: radial_basis, centres: []}}",
        "model: {depth_scale: 1.0e-320}",
        "model: {depth_scale: 1.0e+308}",
        "csv: {encoding: idna}",
        "csv: {encoding: punycode}",
        "csv: {encoding: rot13}",
        "csv: {encoding: undefined}",
    ],
)
def test_settings_that_every_plan_would_refuse_are_refused_by_file_and_by_a_change(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    name = text.partition(":")[0]
    with pytest.raises(PlanError) as caught:
        load_settings(tmp_path, environment={})
    assert str(tmp_path / FILE) in str(caught.value)
    assert f", {name}" in str(caught.value)
    (tmp_path / FILE).write_text("currency: EUR\n")
    with pytest.raises(PlanError, match=rf"disco\.yaml, {name}"):
        change_settings(tmp_path, yaml.safe_load(text))
    assert (tmp_path / FILE).read_text() == "currency: EUR\n"


SEGMENTS = "segments: {column: Gender, limits: {f: {0.10: {at_most: 5}}}}\n"


def test_a_protected_column_is_refused_as_segment_and_as_the_source_of_a_feature(tmp_path: Path) -> None:
    shop = Shop.open(write(tmp_path, "protected: [gender]\n"))
    with pytest.raises(PlanError) as refused:
        shop.read_plan(yaml.safe_load(FIRST + SEGMENTS))
    assert "segments.column: found the protected column Gender; expected a column that the setting" in str(
        refused.value
    )
    assert shop.read_plan(yaml.safe_load(FIRST + SEGMENTS.replace("Gender", "region"))).segments is not None
    with pytest.raises(PlanError, match="found the protected column gender"):
        load_settings(write(tmp_path, "protected: [gender]\ncolumns: {orders: {items: gender}}\n"), environment={})


def test_a_protected_column_is_no_feature(tmp_path: Path) -> None:
    rows = pa.table({"customer_id": [1, 2], "gender": [0.0, 1.0], "log_full_price": [1.0, 2.0], "depth": [0.1, 0.2]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="features: found the protected column gender; expected no column that"):
        train_context(
            disco.ContextNetwork(),
            lambda place: None,  # type: ignore[arg-type,return-value]
            out=tmp_path / "context",
            features=tmp_path / "rows.parquet",
            protected=("GENDER",),
        )


def test_guardrails_of_the_settings_are_those_of_plans_without_their_own(tmp_path: Path) -> None:
    rails = "guardrails: {refunds: {above: 10%, then: tell}, budget_used: {above: 80%, then: pause}}\n"
    shop = Shop.open(write(tmp_path, rails))
    plan = shop.read_plan(yaml.safe_load(FIRST))
    assert plan.guardrails is not None
    assert plan.guardrails.refunds is not None
    assert (plan.guardrails.refunds.above, plan.guardrails.budget_used) == (0.1, None)  # the plan has no budget
    plan = shop.read_plan(yaml.safe_load(FIRST + "budget: 100\n"))
    assert plan.guardrails is not None
    assert plan.guardrails.budget_used is not None
    own = shop.read_plan(yaml.safe_load(FIRST + "guardrails: {sample_ratio: {then: tell}}\n"))
    assert own.guardrails is not None
    assert own.guardrails.refunds is None
    for given, words in (
        ("{refunds: {then: tell}}", "a limit for refunds, such as `refunds: {above: 20%, then: tell}`"),
        ("{refund: {above: 10%, then: tell}}", "Did you mean refunds?"),
        ("{}", "one of spend"),
        (
            "{refunds: {above: 10%}}",
            "nothing for guardrails.refunds.then; expected a value. Add `guardrails.refunds.then:`",
        ),
    ):
        with pytest.raises(PlanError) as refused:
            load_settings(write(tmp_path, f"guardrails: {given}\n"), environment={})
        assert words in str(refused.value)


@pytest.mark.parametrize("sender", ["a@b\nBcc: c@d", "Shop <a@b>", "ä@b", "a@b, c@d", "(c)a@b", "nobody", ""])
def test_the_sender_of_mails_is_one_plain_address(tmp_path: Path, sender: str) -> None:
    written = yaml.safe_dump({"smtp": {"host": "mail.example", "sender": sender}})
    with pytest.raises(PlanError, match=r"smtp\.sender: .*expected one address without a name beside it"):
        load_settings(write(tmp_path, written), environment={})
    with pytest.raises(PlanError, match=r"smtp\.host: found nothing; expected a value\. Add `smtp\.host`"):
        load_settings(write(tmp_path, "smtp: {sender: disco@shop.example}\n"), environment={})
