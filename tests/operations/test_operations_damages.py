"""What can become wrong in a database, one statement each: `disco doctor` finds it, names it, and goes on."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from whole_shop import make_shop

from disco.entrypoints.python import doctor
from disco.operations.upkeep import HealthCheck
from disco.records.diagnosis import Diagnosis, Outcome
from disco.store import health

# ruff: noqa: E501 - a damage is a line
# name of the damage, statements, a word that one failed check must say; campaigns are numbered as c1 1, c2 2, c4 3
DAMAGES: tuple[tuple[str, str, str], ...] = (
    # secrets
    ("the secret is gone", "DELETE FROM secrets WHERE name = 'codes'", "secret"),
    ("the secret is another", "UPDATE secrets SET value = randomblob(32) WHERE name = 'codes'", "secret"),
    ("the secret is text", "UPDATE secrets SET value = 'a secret' WHERE name = 'codes'", "secrets"),
    ("the secret has another name", "UPDATE secrets SET name = 'cods' WHERE name = 'codes'", "secret"),
    ("the secret of lasting holdouts is gone", "DELETE FROM secrets WHERE name = 'holdout'", "no secret holdout"),
    ("all secrets are gone", "DELETE FROM secrets", "secret"),
    # plans
    ("a cap in a plan", "UPDATE plans SET plan = replace(plan, '0.2', '0.99') WHERE campaign = 'c2'", "c2"),
    ("the weight in a plan", "UPDATE plans SET plan = replace(plan, 'weight\":3', 'weight\":4') WHERE campaign = 'c3'", "plan"),
    ("the days of a plan", "UPDATE plans SET plan = replace(plan, 'days\":30', 'days\":300') WHERE campaign = 'c1'", "c1"),
    ("broken JSON of a plan", "UPDATE plans SET plan = substr(plan, 1, 50) WHERE campaign = 'c1'", "c1"),
    ("broken JSON of a plan that waits", "UPDATE plans SET plan = '{' WHERE campaign = 'c3'", "plan"),
    ("no JSON at all", "UPDATE plans SET plan = '' WHERE campaign = 'c2'", "c2"),
    ("inputs of a plan", "UPDATE plans SET inputs = '{}' WHERE campaign = 'c2'", "plan"),
    ("broken inputs", "UPDATE plans SET inputs = '[' WHERE campaign = 'c3'", "plan"),
    ("the reserve in a summary", "UPDATE plans SET summary = replace(summary, 'reserve\":[', 'reserve\":[9') WHERE campaign = 'c2'", "c2"),
    ("prices in a summary", "UPDATE plans SET summary = replace(summary, 'prices\":[', 'prices\":[1') WHERE campaign = 'c2'", "c2"),
    ("a broken summary", "UPDATE plans SET summary = 'x' WHERE campaign = 'c2'", "c2"),
    ("expected figures in a summary", "UPDATE plans SET summary = replace(summary, '\"customers\":', '\"customers\":1') WHERE campaign = 'c3'", "plan"),
    ("when a plan was made", "UPDATE plans SET planned_at = planned_at + 1 WHERE campaign = 'c3'", "plan"),
    ("the name in a plan's row", "UPDATE plans SET campaign = 'c9' WHERE campaign = 'c3'", "plan"),
    ("the id of a plan", "UPDATE plans SET plan_id = 'ffffffffffffffff' WHERE campaign = 'c3'", "plan"),
    ("decisions of another plan", "UPDATE plans SET decisions = (SELECT decisions FROM plans WHERE campaign = 'c1') WHERE campaign = 'c2'", "c2"),
    ("decisions that were never written", "UPDATE plans SET decisions = 'nothing' WHERE campaign = 'c3'", "plan"),
    ("contexts that were never written", "UPDATE plans SET contexts = 'nothing' WHERE campaign = 'c3'", "plan"),
    ("features forgotten", "UPDATE plans SET features = NULL WHERE campaign = 'c1'", "c1"),
    ("a plan deleted under its campaign", "DELETE FROM plans WHERE campaign = 'c1'", "c1"),
    ("a plan that waits, deleted", "DELETE FROM plans WHERE campaign = 'c3'", "missing"),
    ("the plan is bytes", "UPDATE plans SET plan = CAST(plan AS BLOB) WHERE campaign = 'c1'", "plans"),
    # campaigns
    ("an unknown state", "UPDATE campaigns SET state = 'dancing' WHERE campaign = 'c1'", "c1"),
    ("another state", "UPDATE campaigns SET state = 'closed' WHERE campaign = 'c2'", "c2"),
    ("another version", "UPDATE campaigns SET version = 2 WHERE campaign = 'c2'", "c2"),
    ("a version nobody made", "UPDATE campaigns SET version = 77 WHERE campaign = 'c2'", "c2"),
    ("no version", "UPDATE campaigns SET version = NULL WHERE campaign = 'c2'", "c2"),
    ("another network", "UPDATE campaigns SET network = 'other' WHERE campaign = 'c1'", "c1"),
    ("other ids", "UPDATE campaigns SET integer_ids = 1 WHERE campaign = 'c1'", "c1"),
    ("no truth", "UPDATE campaigns SET integer_ids = 2 WHERE campaign = 'c1'", "campaigns"),
    ("another size of contexts", "UPDATE campaigns SET context_size = 3 WHERE campaign = 'c2'", "c2"),
    ("text in a number", "UPDATE campaigns SET context_size = 'two' WHERE campaign = 'c2'", "c2"),
    ("another name", "UPDATE campaigns SET campaign = 'c9' WHERE campaign = 'c1'", "c9"),
    ("another plan", "UPDATE campaigns SET plan_id = (SELECT plan_id FROM plans WHERE campaign = 'c3') WHERE campaign = 'c2'", "c2"),
    ("a plan nobody made", "UPDATE campaigns SET plan_id = 'nothing' WHERE campaign = 'c2'", "c2"),
    ("another number", "UPDATE campaigns SET number = 99 WHERE campaign = 'c1'", "c1"),
    ("when it was launched", "UPDATE campaigns SET launched_at = launched_at - 1 WHERE campaign = 'c4'", "c4"),
    ("codes of another campaign", "UPDATE campaigns SET codes = (SELECT codes FROM campaigns WHERE campaign = 'c1') WHERE campaign = 'c4'", "c4"),
    ("codes that were never written", "UPDATE campaigns SET codes = 'nothing' WHERE campaign = 'c4'", "c4"),
    ("no codes", "UPDATE campaigns SET codes = NULL WHERE campaign = 'c1'", "c1"),
    ("indexes exchanged", "UPDATE campaigns SET customer_index = code_index, code_index = customer_index WHERE campaign = 'c1'", "c1"),
    ("no index", "UPDATE campaigns SET customer_index = NULL WHERE campaign = 'c1'", "c1"),
    ("propensities of nobody", "UPDATE campaigns SET propensities = NULL WHERE campaign = 'c2'", "c2"),
    ("a campaign deleted", "DELETE FROM campaigns WHERE campaign = 'c1'", "version"),
    ("a campaign twice", "INSERT INTO campaigns (number, campaign, plan_id, state, integer_ids, context_size, network, version, launched_at, codes, customer_index, code_index, propensities, seal) SELECT 77, 'c7', plan_id, state, integer_ids, context_size, network, version, launched_at, codes, customer_index, code_index, propensities, seal FROM campaigns WHERE campaign = 'c1'", "c7"),
    # late arrivals
    ("a late customer", "UPDATE late_decisions SET customer_id = 'friend' WHERE row = 120", "c2"),
    ("a late code", "UPDATE late_decisions SET code = 'FREE' WHERE code IS NOT NULL AND row = (SELECT max(row) FROM late_decisions WHERE code IS NOT NULL)", "c2"),
    ("a late depth", "UPDATE late_decisions SET depth = 0.4 WHERE depth IS NOT NULL", "c2"),
    ("a depth that is not offered", "UPDATE late_decisions SET depth = 0.77 WHERE depth IS NOT NULL", "c2"),
    ("a holdout customer with a code", "UPDATE late_decisions SET arm = 'holdout', code = 'GIFT', depth = 0.4 WHERE row = 121", "c2"),
    ("an arm nobody knows", "UPDATE late_decisions SET arm = 'zz' WHERE row = 121", "c2"),
    ("a code without a depth", "UPDATE late_decisions SET depth = NULL WHERE code IS NOT NULL", "c2"),
    ("the value", "UPDATE late_decisions SET value = value + 1 WHERE row = 120", "c2"),
    ("text in the value", "UPDATE late_decisions SET value = 'much' WHERE row = 120", "late_decisions"),
    ("whether they were known", "UPDATE late_decisions SET known = 1 - known WHERE row = 121", "c2"),
    ("the expected price", "UPDATE late_decisions SET expected_full_price = 1.0 WHERE row = 120", "c2"),
    ("the expected engagement", "UPDATE late_decisions SET expected_engagement = 1.0 WHERE row = 122", "c2"),
    ("a late context", "UPDATE late_decisions SET context = zeroblob(16) WHERE row = 121", "c2"),
    ("a short context", "UPDATE late_decisions SET context = x'00' WHERE row = 121", "c2"),
    ("late features", "UPDATE late_decisions SET features = '{}' WHERE row = 121", "c2"),
    ("broken late features", "UPDATE late_decisions SET features = '{' WHERE row = 121", "c2"),
    ("a late row elsewhere", "UPDATE late_decisions SET row = 500 WHERE row = 122", "c2"),
    ("a late row of another campaign", "UPDATE late_decisions SET campaign_number = 1 WHERE row = 122", "c2"),
    ("a late arrival deleted", "DELETE FROM late_decisions WHERE row = 121", "c2"),
    ("a late arrival more", "INSERT INTO late_decisions (campaign_number, row, customer_id, arm, depth, code, value, known, expected_full_price, expected_engagement, context, features) SELECT campaign_number, 123, 'friend', arm, 0.4, 'FREE', value, known, expected_full_price, expected_engagement, context, features FROM late_decisions WHERE row = 120", "c2"),
    ("bytes in a late code", "UPDATE late_decisions SET code = CAST(code AS BLOB) WHERE code IS NOT NULL", "late_decisions"),
    # codes of a pool
    ("a pooled code forgotten", "DELETE FROM pool_codes WHERE code = (SELECT min(code) FROM pool_codes)", "c4"),
    ("a pooled code of nobody", "INSERT INTO pool_codes VALUES ('EXTRA', 3)", "c4"),
    ("a pooled code of another campaign", "UPDATE pool_codes SET campaign_number = 1", "c4"),
    # contexts
    ("contexts of nobody", "DELETE FROM contexts WHERE campaign_number = 1", "c1"),
    ("other contexts", "UPDATE contexts SET artefact = 'nothing' WHERE campaign_number = 2", "c2"),
    ("contexts under another name", "UPDATE contexts SET network = 'other' WHERE campaign_number = 2", "c2"),
    # reserve
    ("a thousand more in reserve", "UPDATE reserves SET codes = codes + 1000 WHERE campaign_number = 2", "c2"),
    ("one less in reserve", "UPDATE reserves SET codes = codes - 1 WHERE campaign_number = 1 AND codes > 0", "c1"),
    ("no limit in reserve", "UPDATE reserves SET codes = NULL WHERE campaign_number = 2", "c2"),
    ("text in reserve", "UPDATE reserves SET codes = 'many' WHERE campaign_number = 2", "c2"),
    ("another depth in reserve", "UPDATE reserves SET depth = 0.77 WHERE depth = 0.2", "c2"),
    ("no reserve", "DELETE FROM reserves WHERE campaign_number = 2", "c2"),
    ("a depth of the reserve gone", "DELETE FROM reserves WHERE campaign_number = 2 AND depth = 0.3", "c2"),
    # batches
    ("a batch reverted by hand", "UPDATE batches SET reverted_at = 1 WHERE number = 1", "c1"),
    ("a revert undone by hand", "UPDATE batches SET reverted_at = NULL WHERE number = 3", "c1"),
    ("where a batch came from", "UPDATE batches SET source = 'elsewhere' WHERE number = 1", "c1"),
    ("what was in a batch", "UPDATE batches SET content_hash = 'x' WHERE number = 2", "c1"),
    ("when a batch came", "UPDATE batches SET received_at = received_at + 1 WHERE number = 2", "c1"),
    ("the id of a batch", "UPDATE batches SET batch_id = 'x' WHERE number = 4", "c2"),
    ("a batch of another campaign", "UPDATE batches SET campaign_number = 1 WHERE number = 4", "c1"),
    ("a batch deleted", "DELETE FROM batches WHERE number = 1", "outcomes"),
    ("a batch with its rows deleted", "DELETE FROM batches WHERE number = 1; DELETE FROM outcomes WHERE batch_number = 1", "c1"),
    ("text in a moment", "UPDATE batches SET received_at = 'today' WHERE number = 4", "batches"),
    # outcomes
    ("a price", "UPDATE outcomes SET full_price_minor = full_price_minor + 1 WHERE disposition = 'applied' AND batch_number = 4", "c2"),
    ("a price that does not count", "UPDATE outcomes SET full_price_minor = 1 WHERE disposition = 'expired'", "c1"),
    ("a date", "UPDATE outcomes SET ordered_at = ordered_at + 1 WHERE row = 5 AND batch_number = 1", "c1"),
    ("a customer", "UPDATE outcomes SET customer_id = 'friend' WHERE row = 5 AND batch_number = 1", "c1"),
    ("a code", "UPDATE outcomes SET code = 'FREE' WHERE row = 5 AND batch_number = 1", "c1"),
    ("an event", "UPDATE outcomes SET event_id = 'other' WHERE row = 5 AND batch_number = 1", "c1"),
    ("a kind", "UPDATE outcomes SET kind = 'refund' WHERE row = 5 AND batch_number = 1", "c1"),
    ("a kind nobody knows", "UPDATE outcomes SET kind = 'gift' WHERE row = 5 AND batch_number = 1", "c1"),
    ("a reference", "UPDATE outcomes SET refers_to = 'other' WHERE kind = 'refund' AND batch_number = 4", "c2"),
    ("a disposition", "UPDATE outcomes SET disposition = 'rejected' WHERE disposition = 'applied' AND batch_number = 4", "c2"),
    ("a disposition nobody knows", "UPDATE outcomes SET disposition = 'lost' WHERE row = 5 AND batch_number = 1", "c1"),
    ("a disposition in quarantine", "UPDATE outcomes SET disposition = 'expired' WHERE disposition = 'rejected' AND raw IS NOT NULL", "c1"),
    ("a reason", "UPDATE outcomes SET reason = 'a whim' WHERE disposition = 'duplicate'", "c1"),
    ("a reason in quarantine", "UPDATE outcomes SET reason = 'a whim' WHERE raw IS NOT NULL AND batch_number = 4", "c2"),
    ("a row as received", "UPDATE outcomes SET raw = '{}' WHERE raw IS NOT NULL AND batch_number = 4", "c2"),
    ("whether a row is reverted", "UPDATE outcomes SET reverted = 1 WHERE row = 5 AND batch_number = 1", "c1"),
    ("a reverted row in force", "UPDATE outcomes SET reverted = 0 WHERE row = 5 AND batch_number = 3", "c1"),
    ("the campaign of a row", "UPDATE outcomes SET campaign_number = 2 WHERE row = 5 AND batch_number = 1", "c1"),
    ("the number of a row", "UPDATE outcomes SET row = 5000 WHERE row = 5 AND batch_number = 1", "c1"),
    ("a row deleted", "DELETE FROM outcomes WHERE row = 5 AND batch_number = 1", "c1"),
    ("a reverted row deleted", "DELETE FROM outcomes WHERE row = 5 AND batch_number = 3", "c1"),
    ("rows of no batch", "INSERT INTO outcomes SELECT 77, row, campaign_number, 'n' || event_id, customer_id, code, kind, refers_to, ordered_at, full_price_minor, 'rejected', reason, raw, reverted FROM outcomes WHERE batch_number = 1", "outcomes"),
    ("text in a price", "UPDATE outcomes SET full_price_minor = 'a lot' WHERE row = 5 AND batch_number = 1", "outcomes"),
    ("bytes in a text", "UPDATE outcomes SET event_id = x'ff00' WHERE row = 5 AND batch_number = 1", "outcomes"),
    ("text that is no text", "UPDATE outcomes SET customer_id = CAST(x'ff80' AS TEXT) WHERE row = 5 AND batch_number = 1", "c1"),
    # evidence
    ("evidence of more", "UPDATE evidence SET evidence = CAST(replace(CAST(evidence AS TEXT), 'redeemed\":[', 'redeemed\":[1') AS BLOB) WHERE campaign_number = 2", "c2"),
    ("evidence as text", "UPDATE evidence SET evidence = CAST(evidence AS TEXT) WHERE campaign_number = 1", "evidence"),
    ("evidence cut", "UPDATE evidence SET evidence = substr(evidence, 1, 40) WHERE campaign_number = 1", "c1"),
    ("evidence gone", "DELETE FROM evidence WHERE campaign_number = 2", "c2"),
    ("evidence under another network", "UPDATE evidence SET network = 'other' WHERE campaign_number = 1", "c1"),
    ("evidence of a network more", "INSERT INTO evidence SELECT campaign_number, 'other', evidence, seal FROM evidence WHERE campaign_number = 1", "c1"),
    # versions
    ("the prior of the active version", "UPDATE versions SET engagement = replace(engagement, 'prior_codes\":', 'prior_codes\":1') WHERE number = 2", "version 2"),
    ("an older version", "UPDATE versions SET engagement = replace(engagement, 'sent\":[', 'sent\":[1') WHERE number = 1", "version 1"),
    ("a broken version", "UPDATE versions SET engagement = '{' WHERE number = 1", "version 1"),
    ("an older model", "UPDATE versions SET basket = substr(basket, 1, 100) WHERE number = 1", "version 1"),
    ("an older version deleted", "DELETE FROM versions WHERE number = 1", "version 1"),
    ("the active version deleted", "DELETE FROM versions WHERE number = 2", "version"),
    ("no version active", "DELETE FROM active_versions", "version"),
    ("another version active", "UPDATE active_versions SET number = 1", "version"),
    ("all versions deleted", "DELETE FROM active_versions; DELETE FROM versions", "c2"),
    ("what a version was learned from", "UPDATE versions SET campaigns = '{}' WHERE number = 2", "version 2"),
    ("campaigns of a version that are no JSON", "UPDATE versions SET campaigns = '' WHERE number = 1", "version 1"),
    ("the network of a version", "UPDATE versions SET network = 'other' WHERE number = 1", "version 1"),
    ("when a version was made", "UPDATE versions SET made_at = made_at + 1 WHERE number = 2", "version 2"),
    ("a version of another model", "UPDATE versions SET model = 'side' WHERE number = 1", "version"),
    ("a version more", "INSERT INTO versions SELECT model, 3, basket, engagement, network, campaigns, made_at, seal FROM versions WHERE number = 1", "version 3"),
    # the schema
    ("two revisions", "INSERT INTO alembic_version VALUES ('0001')", "alembic_version"),
    ("no revision", "DELETE FROM alembic_version", "alembic_version"),
    ("a revision nobody knows", "UPDATE alembic_version SET version_num = '9999'", "9999"),
    ("no table of revisions", "DROP TABLE alembic_version", "alembic_version"),
    ("a unique index dropped", "DROP INDEX outcomes_one_event_in_force", "outcomes"),
    ("an index dropped", "DROP INDEX outcomes_by_code", "outcomes"),
    ("another index of that name", "DROP INDEX outcomes_by_code; CREATE INDEX outcomes_by_code ON outcomes (code)", "outcomes"),
    ("another condition of an index", "DROP INDEX outcomes_one_event_in_force; CREATE UNIQUE INDEX outcomes_one_event_in_force ON outcomes (campaign_number, event_id) WHERE disposition = 'applied'", "outcomes"),
    *((f"no table {table}", f"DROP TABLE {table}", table) for table in ("secrets", "reserves", "evidence", "contexts", "pool_codes", "late_decisions", "active_versions", "versions", "outcomes", "batches", "campaigns", "plans")),
    ("a column gone", "ALTER TABLE outcomes DROP COLUMN raw", "outcomes"),
    ("a column more", "ALTER TABLE plans ADD COLUMN note TEXT", "plans"),
    ("a column renamed", "ALTER TABLE versions RENAME COLUMN basket TO bucket", "versions"),
    ("a trigger", "CREATE TRIGGER t AFTER INSERT ON outcomes BEGIN DELETE FROM evidence; END", "trigger"),
    ("a column that allows null", "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'state TEXT NOT NULL', 'state TEXT') WHERE name = 'campaigns'", "campaigns"),
    ("a check gone", "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'codes >= 0', 'codes >= -9') WHERE name = 'reserves'", "reserves"),
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_shop(tmp_path_factory.mktemp("whole") / "shop")


_compared: dict[str, tuple[Diagnosis, ...]] = {}


def _compared_once(connection: sa.Connection) -> tuple[Diagnosis, ...]:
    """The comparison of the schema takes half of the time and depends on nothing else: once for equal schemas."""
    found = repr(connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall())
    if found not in _compared:
        _compared[found] = tuple(health._schema(connection))
    return _compared[found]


@pytest.fixture(autouse=True)
def _schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = dict(health._LOOKS)
    assert looks["schema"] is health._schema
    monkeypatch.setattr(health, "_LOOKS", tuple((looks | {"schema": _compared_once}).items()))


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of the shop, which shares the artefacts, with something done to its database."""

    def copy(statements: str) -> Path:
        shutil.copy(whole / "disco.db", tmp_path / "disco.db")
        (tmp_path / "disco.yaml").write_text(f"data: {whole / 'data'}\nartefacts: {whole / 'artefacts'}\n")
        connection = sqlite3.connect(tmp_path / "disco.db")
        before = connection.total_changes
        connection.executescript(f"BEGIN; {statements}; COMMIT")
        changes_rows = statements.startswith(("UPDATE", "DELETE", "INSERT"))
        assert not changes_rows or connection.total_changes > before, "the damage hits nothing"
        connection.close()
        return tmp_path

    return copy


def failures(found: HealthCheck) -> list[str]:
    """What failed; the shop has no network and needs none."""
    return [f"{one.check}, {one.where}: {one.found}" for one in found.failed if one.check != "network"]


def test_a_whole_shop_passes(damaged: Callable[[str], Path]) -> None:
    found = doctor(damaged("SELECT 1"))
    assert failures(found) == []
    assert {"c1", "c2", "c4"} <= {one.where.removeprefix("campaign ") for one in found.checks}


def test_one_broken_seal_is_one_finding(damaged: Callable[[str], Path]) -> None:
    found = doctor(damaged("UPDATE campaigns SET state = 'closed' WHERE campaign = 'c2'"))
    (failed,) = failures(found)
    assert "campaign c2 is changed by something other than disco" in failed
    skipped = [one for one in found.checks if one.outcome is Outcome.SKIPPED]
    assert ("plan", "campaign c2") in [(one.check, one.where) for one in skipped]
    assert {one.found for one in skipped} == {"not checked, because a seal is broken"}


@pytest.mark.parametrize(("statements", "word"), [one[1:] for one in DAMAGES], ids=[one[0] for one in DAMAGES])
def test_every_damage_is_found_and_named(damaged: Callable[[str], Path], statements: str, word: str) -> None:
    found = doctor(damaged(statements))
    failed = failures(found)
    assert any(word in one for one in failed), failed
    # it went on: what was not damaged was looked at all the same
    looked_at = {one.check for one in found.checks}
    assert {"tables", "network", "schema"} <= looked_at
    assert not any("Traceback" in one or "; expected ;" in one for one in failed)
