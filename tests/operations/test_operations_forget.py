"""Forgotten customers: no byte of their ids, features and contexts is left, and everything else works as before."""

import json
import re
import signal
import struct
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from arriving import decide_late_arrivals
from killed_steps import forget_step
from many_processes import ended
from stores import artefacts_of, on_both_databases, open_store

from disco.office.drafts import use_cases as drafts
from disco.office.jobs import use_cases as jobs
from disco.office.schedules.use_cases import add_schedule, list_schedules
from disco.operations import outcomes
from disco.operations.contexts import FeatureCache
from disco.operations.explain import explain
from disco.operations.export import export
from disco.operations.forget import PersonalData, access, forget, prune
from disco.operations.launch import launch
from disco.operations.learn import learn_campaigns, rebuild, stored_evidence
from disco.operations.outcomes import ingest, quarantined_rows, revert
from disco.operations.plan import keep
from disco.operations.replay import add_propensities
from disco.operations.upkeep import audit
from disco.records.decisions import Audience
from disco.records.errors import InputError, StateError
from disco.records.jobs import JobKind
from disco.store.personal import Renaming, as_integer, as_text, is_forgotten, mentions, names_in_condition
from disco.web import once as replies

CANARY, LATE, STRANGER = "CANARY-7f3e9b", "CANARY-late-51", "CANARY-stranger"
SECOND = "second network"
CACHED = f"{'0' * 32}.parquet"
FIGURES = {CANARY: 1234.5678901234567, LATE: 8765.4321098765432}  # a feature of each, found by its bits and its digits

in_rows_and_packs = pytest.mark.usefixtures("kept_as")
"""For tests of what is done to outcomes."""


@dataclass
class Life:
    """A campaign with everything that can hold a customer, on one database."""

    shop: object
    url: str
    folder: Path

    @property
    def store(self):
        return self.shop.store

    @property
    def cache(self):
        return FeatureCache(folder=self.folder / "cache")

    def forget(self, *customers, **more):
        return forget(
            self.store,
            customers,
            clock=self.shop.clock,
            cache=self.cache,
            folders=[self.folder],
            tables="data/",
            **more,
        )

    def decide(self, ids, **more):
        settings = {"network": self.shop.network, "prior": self.shop.knowledge(), "clock": self.shop.clock, **more}
        return decide_late_arrivals(self.store, "spring", self.audience(ids), **settings)

    def audience(self, ids):
        rng = np.random.default_rng(len(ids))
        context = self.shop.on_grid(rng.normal(size=(len(ids), 2)))
        return Audience(ids=np.array(ids, object), context=context, known=np.ones(len(ids), bool))

    def features(self, ids):
        figures = np.arange(len(ids)) / 3
        for place, customer in enumerate(ids):
            figures[place] = FIGURES.get(customer, figures[place])
        return pa.table({"customer_id": pa.array(ids), "spend": figures, "orders_365d": np.ones(len(ids))})

    def contexts_of(self, features):
        """Another network: unknown customers get the population's context, as from the real one."""
        spend = features["spend"].to_numpy()
        return np.nan_to_num(np.stack([np.sin(spend), np.cos(spend)], axis=1), nan=0.0) * ~np.isnan(spend)[:, None]

    def relearn(self, network):
        return rebuild(
            self.store,
            network=network,
            contexts_of=self.contexts_of,
            prior=self.shop.prior,
            as_of=self.shop.after,
            clock=self.shop.clock,
        )

    def rows(self):
        with self.store.reading() as transaction:
            return transaction.decisions.of("spring")

    def is_sound(self):
        with self.store.reading() as transaction:
            broken = transaction.seals.broken() + transaction.seals.broken_of("spring")
        return not broken and all(finding.ok for finding in audit(self.store))

    def texts(self):
        """Everything that is kept, as bytes: files raw, Arrow and Parquet also decoded, and rows of the database."""
        found = []
        for path in [*self.folder.rglob("*"), *artefacts_of(self.url).rglob("*")]:
            if path.is_file():
                found.append(path.read_bytes())
            if path.suffix in (".arrow", ".parquet"):
                table = pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()
                found.append(json.dumps(table.to_pylist(), default=str).encode())
                found += _buffers(table)
        if self.url.startswith("postgresql"):
            engine = sa.create_engine(self.url.replace("postgresql:", "postgresql+psycopg:"))
            with engine.connect() as connection:
                for name in sa.inspect(connection).get_table_names():
                    rows = connection.exec_driver_sql(f"SELECT t::text FROM {name} t").scalars()
                    found += [row.encode() for row in rows]
            engine.dispose()
        return found

    def traces(self, *needles):
        kept = self.texts()
        return [needle for needle in needles if any(needle in text for text in kept)]


def _buffers(table):
    """The memory of a table, which also holds what lies under nulls; a compressed file may hide it."""
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    return [buffer.to_pybytes() for chunk in chunks for buffer in chunk.buffers() if buffer is not None]


def filled(shop):
    """A shop with a campaign that has everything in which a customer can stand."""
    life = Life(shop, "", Path())
    ids = [CANARY if number == 17 else f"c{number:04}" for number in range(200)]
    plan = shop.plan(
        reserve={"share": "5%"}, depths={0.1: {"at_most": "100%"}, 0.3: {"at_most": "100%"}}, holdout={"share": 0}
    )
    planned = shop.planned(plan, life.audience(ids), features=life.features(ids))
    launch(shop.store, planned, clock=shop.clock, secret=shop.secret)
    keep(shop.store, shop.planned(shop.plan(campaign="summer"), life.audience(ids), features=life.features(ids)))
    newcomers = [LATE, "n1", "n2"]
    life.decide(newcomers, features=life.features(newcomers))
    sent = [row for row in life.rows().to_pylist() if row["code"] is not None]
    assert {CANARY, LATE} <= {row["customer_id"] for row in sent}
    ingest(shop.store, "spring", shop.outcomes(sent), source="a.csv", clock=shop.clock)
    strangers = [
        {"customer_id": STRANGER, "code": sent[0]["code"]},
        {"customer_id": "c0001", "code": f"see {CANARY}"},
    ]
    aside = shop.outcomes(strangers, event_id=["s1", "s2"])
    ingest(shop.store, "spring", aside, source="b.csv", clock=shop.clock)
    learn_campaigns(shop.store, ["spring"], prior=shop.prior, as_of=shop.after, clock=shop.clock)
    life.relearn(SECOND)
    shop.store.close()


@pytest.fixture
def life(request, copied_database_url, make_shop, tmp_path):
    kept_as = request.getfixturevalue("kept_as") if "kept_as" in request.fixturenames else "rows"
    url = copied_database_url(f"forgetting {kept_as}", lambda url: filled(make_shop(open_store(url))))
    life = Life(make_shop(open_store(url)), url, tmp_path)
    (tmp_path / "cache").mkdir()
    pq.write_table(life.features([CANARY]), tmp_path / "cache" / CACHED)
    yield life
    life.store.close()


def needles(life):
    """Ids, the feature's bits and digits, and the bits of contexts under both networks."""
    rows = life.rows()
    found = [CANARY.encode(), LATE.encode()]
    with life.store.reading() as transaction:
        for customer, figure in FIGURES.items():
            row = np.array([rows["customer_id"].to_pylist().index(customer)])
            for network in (life.shop.network, SECOND):
                context = transaction.contexts.of("spring", network, row)[0]
                found += [struct.pack("<d", number) for number in context]
            found += [struct.pack("<d", figure), repr(figure).encode()]
    return found


@on_both_databases
@in_rows_and_packs
def test_no_byte_of_a_forgotten_customer_is_left(life):
    wanted = needles(life)
    assert life.traces(CANARY.encode(), LATE.encode(), STRANGER.encode()) == [
        CANARY.encode(),
        LATE.encode(),
        STRANGER.encode(),
    ]
    assert len(life.traces(*wanted)) >= 10, "the search finds what is there"
    (life.folder / "cache" / "notes.parquet").write_text("somebody's own")
    done = life.forget(CANARY, LATE, STRANGER, "never seen")
    assert [path.name for path in (life.folder / "cache").iterdir()] == ["notes.parquet"]
    (life.folder / "cache" / "notes.parquet").unlink()
    assert (done.customers, done.found, done.unfinished) == (4, 3, ())
    (there,) = done.campaigns
    assert (there.campaign, there.decisions, there.outcomes, there.raw) == ("spring", 2, 3, 1)
    assert len(done.plans) == 1, "the plan that was not launched"
    assert done.files >= 7
    assert life.traces(STRANGER.encode(), *wanted) == []
    assert life.is_sound()


@on_both_databases
@in_rows_and_packs
def test_access_shows_exactly_what_forgetting_removes(life):
    clock, everybody = life.shop.clock, (CANARY, LATE, STRANGER)
    condition = {"plan": {"customers": {"eligible": f"customer_id <> '{CANARY}'"}}}
    jobs.submit(life.store, "validate", condition, clock=clock, once=f"key:crm:for {CANARY}")
    drafts.put_draft(life.store, f"without-{CANARY}", condition["plan"], clock=clock)
    add_schedule(life.store, kind=JobKind.PLAN, body=condition, rule="daily at 06:00", clock=clock)

    def shown(customer):
        return access(life.store, customer, tables="data/")

    before = {customer: shown(customer) for customer in everybody}
    rows, decisions = life.rows(), {}
    for customer, figure in FIGURES.items():
        text = before[customer].to_json()
        assert repr(figure) in text, "features"
        row = rows["customer_id"].to_pylist().index(customer)
        with life.store.reading() as transaction:
            for network in (life.shop.network, SECOND):
                numbers = transaction.contexts.of("spring", network, np.array([row]))[0].tolist()
                kept = [one.content["context"] for one in before[customer].records if one.place == "context"]
                assert numbers in kept, "contexts of both networks"
        decisions[customer] = next(one.content for one in before[customer].records if one.place == "decision")
        assert decisions[customer]["code"] == rows["code"][row].as_py()
    places = Counter(one.place for kept in before.values() for one in kept.records)
    texts = {one.where.split()[0] for one in before[CANARY].records if one.place == "text"}
    assert texts == {"jobs.once", "jobs.body", "schedules.body", "drafts.name", "drafts.plan"}
    assert PersonalData.from_dict(before[CANARY].as_dict()) == before[CANARY]

    done = life.forget(*everybody)
    (there,) = done.campaigns
    removed = {"decision": there.decisions, "outcome": there.outcomes, "set aside": there.raw}
    assert {place: places[place] for place in removed} == removed
    assert {one.where for kept in before.values() for one in kept.records if one.place == "plan"} == {*done.plans}
    after = {customer: shown(customer) for customer in everybody}
    assert [kept.records for kept in after.values()] == [()] * 3
    assert {name: kept.elsewhere for name, kept in after.items()} == {
        name: kept.elsewhere for name, kept in before.items()
    }
    assert any("audit journal" in sentence for sentence in shown(CANARY).elsewhere), "it cannot be changed"


def test_access_shows_rows_of_reverted_batches(life):
    rows = [row for row in life.rows().to_pylist() if row["customer_id"] == CANARY]
    again = ingest(life.store, "spring", life.shop.outcomes(rows), source="c.csv", clock=life.shop.clock)
    revert(life.store, again.batch_id, clock=life.shop.clock)
    kept = access(life.store, CANARY, tables="data/")
    assert again.batch_id in {one.content["batch_id"] for one in kept.records if one.place == "outcome"}
    life.forget(CANARY)
    assert access(life.store, CANARY, tables="data/").records == ()


def test_access_writes_a_file_and_refuses_names_of_the_forgotten(life, tmp_path):
    file = tmp_path / "kept.json"
    kept = access(life.store, CANARY, tables="data/", file=file)
    assert json.loads(file.read_text()) == kept.as_dict()
    assert access(life.store, "never seen", tables="data/").records == ()
    with pytest.raises(InputError, match="empty id"):
        access(life.store, "", tables="data/")
    life.forget(CANARY)
    names = life.rows()["customer_id"].filter(pa.array(is_forgotten(life.rows()["customer_id"])))
    with pytest.raises(InputError, match="was forgotten before"):
        access(life.store, names[0].as_py(), tables="data/")


@in_rows_and_packs
def test_everything_else_works_as_before(life):
    before = life.rows()
    with life.store.reading() as transaction:
        evidence = stored_evidence(transaction, "spring", life.shop.network)
    life.forget(CANARY, LATE)
    assert life.is_sound()
    after = life.rows()
    gone = np.isin(before["customer_id"].to_pylist(), [CANARY, LATE])
    for name in ("row", "arm", "depth", "code", "value", "late", "expected_full_price"):
        assert after[name].equals(before[name]), name
    assert after.filter(pa.array(~gone)).equals(before.filter(pa.array(~gone)))
    assert is_forgotten(after["customer_id"]).tolist() == gone.tolist()
    names = after["customer_id"].filter(pa.array(gone)).to_pylist()
    assert len(set(names)) == 2

    with life.store.reading() as transaction:
        now = stored_evidence(transaction, "spring", life.shop.network)
        same = transaction.ledger.outcomes("spring")
        assert {*names} <= {*same["customer_id"].to_pylist()}, "one name per customer, everywhere"
    assert now.baskets.total_rows == evidence.baskets.total_rows - 2
    assert now.codes == evidence.codes or np.array_equal(now.codes.redeemed, evidence.codes.redeemed)
    learned = learn_campaigns(
        life.store, ["spring"], prior=life.shop.prior, as_of=life.shop.after, clock=life.shop.clock
    )
    assert learned.changed
    assert life.relearn("third network").campaigns["spring"] == now.baskets.total_rows
    add_propensities(life.store, "spring", prior=life.shop.knowledge(), draws=20)
    assert life.is_sound()

    codes = export(life.store, "spring").to_arrow()
    assert not is_forgotten(codes["customer_id"]).any()
    assert codes.num_rows == int(after["code"].is_valid().to_numpy().sum()) - 2
    explain(life.store, "spring", "c0003", prior=life.shop.prior)
    with pytest.raises(InputError, match="was forgotten"):
        explain(life.store, "spring", names[0], prior=life.shop.prior)
    with pytest.raises(InputError, match="not part of"):
        explain(life.store, "spring", CANARY, prior=life.shop.prior)


@in_rows_and_packs
def test_a_forgotten_customer_gets_no_second_code_and_no_row_of_theirs_is_kept_again(life):
    rows = life.rows()
    sent = [row for row in rows.to_pylist() if row["code"] is not None]
    life.forget(CANARY)
    life.forget(LATE)
    fresh = {"network": life.shop.network}
    for customer in (CANARY, LATE):
        with pytest.raises(StateError, match="was forgotten after campaign spring was launched"):
            life.decide([customer], **fresh)
    again = ingest(life.store, "spring", life.shop.outcomes(sent), source="a.csv", clock=life.shop.clock)
    assert (again.duplicate, again.unmatched, again.applied) == (len(sent) - 2, 2, 0)
    assert {reason.reason for reason in again.reasons} == {
        "the same event was received before",
        "the customer was forgotten",
    }
    aside = quarantined_rows(life.store, again).filter(pc.equal(quarantined_rows(life.store, again)["raw"], "{}"))
    assert aside["customer_id"].to_pylist() == [None, None]
    life.store.compact()
    assert life.traces(LATE.encode()) == []
    revert(life.store, again.batch_id, clock=life.shop.clock)
    assert life.is_sound()

    plan = life.shop.plan(campaign="autumn")
    later = life.shop.clock.moment + timedelta(days=1)
    planned = life.shop.planned(plan, life.audience([CANARY, *(f"c{number:04}" for number in range(50))]))
    clock = type(life.shop.clock)(later)
    launched = launch(life.store, planned, clock=clock, secret=life.shop.secret)
    assert CANARY in launched.decisions["customer_id"].to_pylist(), "new campaigns may include them"


def test_forgetting_twice_and_strangers_change_nothing(life):
    life.forget(CANARY)
    before = life.rows()
    for customer in (CANARY, "never seen"):
        done = life.forget(customer)
        assert (done.found, done.campaigns, done.plans) == (0, (), ())
    assert life.rows().equals(before)
    name = before["customer_id"].filter(pa.array(is_forgotten(before["customer_id"])))[0].as_py()
    with pytest.raises(InputError, match="was forgotten before"):
        life.forget(name)
    with pytest.raises(InputError, match="empty id"):
        life.forget("")


def test_a_rehearsal_says_what_would_be_forgotten_and_writes_nothing(life):
    before, files = life.rows(), sorted(artefacts_of(life.url).iterdir())
    done = life.forget(CANARY, LATE, dry_run=True)
    assert (done.found, done.files, done.dry_run, len(done.plans)) == (2, 0, True, 1)
    assert life.rows().equals(before)
    assert sorted(artefacts_of(life.url).iterdir()) == files
    assert (life.folder / "cache" / CACHED).exists()
    assert life.is_sound()


@in_rows_and_packs
def test_whoever_is_killed_after_the_commit_is_finished_by_the_next_run(life):
    assert ended(forget_step, life.url, life.folder, [CANARY, LATE]) == -signal.SIGKILL
    assert life.is_sound(), "the shop can be used at once"
    assert life.traces(CANARY.encode()), "old artefacts and the cache are still there"
    done = life.forget(CANARY)
    assert done.found == 0
    assert done.files >= 7
    assert life.traces(CANARY.encode(), LATE.encode()) == []
    assert life.is_sound()


@in_rows_and_packs
def test_whoever_is_killed_before_the_commit_has_changed_nothing(life, monkeypatch):
    before = life.rows()

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(outcomes, "rebuilt_evidence", killed)
        with pytest.raises(KeyboardInterrupt):
            life.forget(CANARY)
    assert life.rows().equals(before)
    assert life.is_sound()
    assert len(life.store.remove_unnamed()) >= 4, "what it had written is removed later"
    assert life.is_sound()


def test_what_cannot_be_removed_is_said_and_the_customers_are_forgotten_all_the_same(life, monkeypatch):
    def full():
        raise StateError("the disk is full")

    monkeypatch.setattr(life.store, "compact", full)
    done = life.forget(CANARY)
    assert done.found == 1
    assert done.unfinished == ("Unused pages of the database could not be removed: the disk is full",)


def test_a_damaged_campaign_is_not_sealed_anew_by_forgetting(life):
    with life.store.writing("spring", action="test") as transaction:
        transaction.plans._connection.execute(sa.text("UPDATE late_decisions SET value = value + 1"))
    with pytest.raises(StateError, match="doctor --repair"):
        life.forget(CANARY)
    assert CANARY in life.rows()["customer_id"].to_pylist()


@in_rows_and_packs
def test_integer_ids_get_an_integer_name(store_url, make_shop, tmp_path):
    shop = make_shop(open_store(store_url))
    launched = shop.launch()
    sent = shop.sent(launched)
    ingest(shop.store, "spring", shop.outcomes(sent), source="a.csv", clock=shop.clock)
    life, customer = Life(shop, store_url, tmp_path), sent[0]["customer_id"]
    assert life.forget(str(customer)).found == 1
    after = life.rows()["customer_id"]
    assert after.type == pa.int64()
    assert is_forgotten(after).sum() == 1
    assert customer not in after.to_pylist()
    assert life.is_sound()
    shop.store.close()


@in_rows_and_packs
def test_refunds_that_contradict_each_other_are_judged_again_under_the_new_name(life):
    """Two rows of one refund, the first by id is believed; a name may sort after the other customer's id."""
    coded = {row["customer_id"]: row for row in life.rows().to_pylist() if row["code"] is not None}
    theirs, other = coded[CANARY], {**coded[CANARY], "customer_id": "d-another"}
    refunds = life.shop.outcomes(
        [theirs, other],
        event_id=["r1", "r1"],
        kind=["refund", "refund"],
        refers_to=pa.array([f"e{CANARY}"] * 2),
        full_price=[1.0, 1.0],
        ordered_at=pa.array([datetime(2027, 3, 10, 12)] * 2, pa.timestamp("us")),
    )
    ingest(life.store, "spring", refunds, source="r.csv", clock=life.shop.clock)
    assert life.is_sound()
    life.forget(CANARY)
    assert life.is_sound()


@on_both_databases
@in_rows_and_packs
def test_prune_removes_what_is_old_and_learning_goes_on(life):
    (life.folder / "cache" / CACHED).touch()
    now = datetime(2028, 6, 1, tzinfo=UTC)
    clock = type(life.shop.clock)(now)

    def pruned(days, **more):
        return prune(life.store, days=days, clock=clock, cache=life.cache, folders=[life.folder], **more)

    young = pruned(1000)
    assert (young.raw, young.plans, young.campaigns, young.caches) == (0, (), (), 0)
    rehearsed = pruned(400, dry_run=True)
    assert (rehearsed.raw, len(rehearsed.plans), rehearsed.leftovers) == (2, 1, 0)
    done = pruned(400)
    assert (done.raw, done.plans, done.campaigns) == (2, rehearsed.plans, ("spring",))
    assert done.artefacts == 1, "its contexts and features are those of the launched plan"
    assert done.freed_bytes > 0
    assert life.traces(STRANGER.encode()) == [STRANGER.encode()], "the id itself stays; `forget` replaces it"
    assert life.is_sound()
    assert life.relearn("third network").campaigns["spring"] > 0
    assert pruned(400).raw == 0

    assert pruned(400, features=True).features == ("spring",)
    assert life.is_sound()
    with pytest.raises(StateError, match="No features were kept"):
        life.relearn("fourth network")


def test_features_of_late_arrivals_since_the_last_prune_go_with_the_next(store_url, make_shop, tmp_path):
    shop = make_shop(open_store(store_url))
    life = Life(shop, store_url, tmp_path)
    ids = [f"c{number:04}" for number in range(50)]
    planned = shop.planned(shop.plan(reserve={"share": "5%"}), life.audience(ids), features=life.features(ids))
    launch(shop.store, planned, clock=shop.clock, secret=shop.secret)
    clock = type(shop.clock)(datetime(2028, 6, 1, tzinfo=UTC))

    def pruned():
        return prune(shop.store, days=400, clock=clock, cache=life.cache, folders=[tmp_path], features=True).features

    assert pruned() == ("spring",)
    assert pruned() == ()
    life.decide(["n3"], features=life.features(["n3"]))
    assert pruned() == ("spring",)
    assert life.is_sound()
    assert life.forget("n3").found == 1
    shop.store.close()


def test_a_plan_whose_condition_leaves_a_customer_out_is_removed_with_them(life):
    ids = ["c0001", "c0002"]
    for campaign, customer in (("without", CANARY), ("quoted", "O'Neil-Zoë")):
        condition = "customer_id <> '{}'".format(customer.replace("'", "''"))
        plan = life.shop.plan(campaign=campaign, customers={"as_of": "2027-03-01", "eligible": condition})
        keep(life.store, life.shop.planned(plan, life.audience(ids), features=life.features(ids)))
    assert len(life.forget(CANARY).plans) == 2, "that of summer includes them"
    assert life.traces(CANARY.encode()) == []
    done = life.forget("O'Neil-Zoë")
    assert (done.found, len(done.plans)) == (1, 1)
    assert life.is_sound()


def test_a_plan_whose_disclosure_names_a_customer_is_removed_with_them(life):
    ids, day = ["c0001", "c0002"], {"as_of": "2027-03-01"}
    shown = {"text": "Chosen for you.", "where": "customer_id = 'Zoë'"}
    plan = life.shop.plan(campaign="without", customers=day, disclosure=shown)
    keep(life.store, life.shop.planned(plan, life.audience(ids), features=life.features(ids)))
    done = life.forget("Zoë")
    assert (done.found, len(done.plans)) == (1, 1)


def test_a_plan_whose_condition_has_the_customers_number_is_removed_with_them(life):
    ids = ["c0001", "c0002"]
    for campaign, condition in (("without", "customer_id <> 71356177"), ("older", "age > 71356177")):
        plan = life.shop.plan(campaign=campaign, customers={"as_of": "2027-03-01", "eligible": condition})
        keep(life.store, life.shop.planned(plan, life.audience(ids), features=life.features(ids)))
    done = life.forget("71356177")
    assert (done.found, len(done.plans)) == (1, 1)
    with life.store.reading() as transaction:
        kept = [transaction.plans.get(name).plan for name in transaction.plans.ids()]
    assert not [plan for plan in kept if "customer_id <> 71356177" in plan.customers.eligible]
    assert [plan.campaign for plan in kept if "71356177" in plan.customers.eligible] == ["older"]
    assert life.is_sound()


@pytest.mark.parametrize(
    ("condition", "customer", "there"),
    [
        ("customer_id <> 17", "17", True),
        ("CUSTOMER_ID not in (16,17)", "17", True),
        ("customer_id <> 0017.0", "17", True),
        ("customer_id <> -17", "-17", True),
        ("customer_id <> '0017'", "0017", True),
        ("customer_id <> $$C17$$", "C17", True),
        ("customer_id <> 'O''Neil'", "O'Neil", True),
        ("nickname = 'O''Neil'", "O'Neil", True),
        ("customer_id <> 170", "17", False),
        ("customer_id <> 1.17", "17", False),
        ("customer_id <> 'C170'", "C17", False),
        ("age > 17", "17", False),
    ],
)
def test_a_condition_names_a_customer_as_a_text_or_as_a_number(condition, customer, there):
    assert names_in_condition(condition, customer) is there


@pytest.mark.parametrize(
    ("raw", "customer", "there"),
    [
        ({"customer_id": "Zoë"}, "Zoë", True),
        ({"customer_id": "a\"b\\c"}, "a\"b\\c", True),
        ({"customer_id": "C170"}, "C17", False),
        ({"event_id": "C17-order"}, "C17", True),
        ({"full_price": "17"}, "17", True),
        ({"full_price": "17.5", "customer_id": "x 17;"}, "17", True),
        ({"ordered_at": "2027-03-17"}, "17", False),
    ],
)  # fmt: skip
def test_a_raw_row_mentions_a_customer_where_their_id_stands_by_itself(raw, customer, there):
    assert mentions(json.dumps(raw), [customer]) is there


def test_names_are_recognised_and_nothing_else_is():
    assert is_forgotten(pa.array([as_text(0), as_text(2**24 - 1), "forgotten-xyz", None])).tolist() == [
        True,
        True,
        False,
        False,
    ]
    numbers = pa.array([as_integer(0), as_integer(2**24 - 1), as_integer(0) - 1, 17, -17], pa.int64())
    assert is_forgotten(numbers).tolist() == [True, True, False, False, False]


def test_results_of_jobs_and_kept_replies_that_may_name_a_customer_go_with_them(life):
    clock = life.shop.clock
    asked = jobs.submit(life.store, "validate", {}, clock=clock)
    taken = jobs.claim(life.store, worker="one", clock=clock)
    jobs.finish(life.store, taken, json.dumps({"problems": [f"{CANARY} twice"]}), clock=clock)
    reserved = replies.begin_reply(life.store, "key", "hash", clock=clock)
    replies.finish_reply(life.store, "key", reserved, status=200, headers={}, body=CANARY.encode())
    life.forget(CANARY)
    assert jobs.get_job(life.store, asked.id).result is None
    assert replies.begin_reply(life.store, "key", "hash", clock=clock).status is None
    later = type(clock)(clock.now() + timedelta(days=500))
    assert prune(life.store, days=400, clock=later, cache=life.cache, folders=[life.folder]).jobs == 1
    assert jobs.list_jobs(life.store).items == ()


@on_both_databases
@in_rows_and_packs
def test_texts_that_people_wrote_have_another_name_and_what_cannot_be_changed_is_said(life):
    clock, store = life.shop.clock, life.store
    condition = {"plan": {"customers": {"eligible": f"customer_id <> '{CANARY}'"}, CANARY: [f"not {CANARY}!"]}}
    asked = jobs.submit(store, "validate", condition, clock=clock, once=f"key:crm:for {CANARY}")
    retried = jobs.claim(store, worker="one", clock=clock)
    jobs.fail(store, retried, InputError(CANARY), clock=clock, retry_in=timedelta(hours=1))
    drafts.put_draft(store, f"without-{CANARY}", condition["plan"], clock=clock)
    made = add_schedule(store, kind=JobKind.PLAN, body=condition, rule="daily at 06:00", clock=clock)
    rows = [row for row in life.rows().to_pylist() if row["code"] is not None and row["customer_id"] == "c0001"]
    ingest(store, "spring", life.shop.outcomes(rows, event_id=["x1"]), source=f"mail of {CANARY}.csv", clock=clock)
    done = life.forget(CANARY)
    assert (done.texts, done.unfinished) == (4, ())

    (sentence,) = [one for one in done.elsewhere if "audit journal" in one]
    named = f"without-{CANARY}".encode()
    with store.reading() as transaction:
        entries = [one.number for one in transaction.journal.entries(after=0, limit=1000) if CANARY in one.detail]
        assert transaction.journal.first_break() is None
    assert f": {', '.join(map(str, entries))}." in sentence
    assert all(named in text for text in life.texts() if CANARY.encode() in text), "in the journal alone"
    if not life.url.startswith("postgresql"):
        kept = Path(life.url.removeprefix("sqlite:///")).read_bytes()
        # VACUUM may leave a page of the journal twice
        places = {kept[found.start() - 60 : found.end() + 30] for found in re.finditer(CANARY.encode(), kept)}
        assert len(places) == len(entries), places

    job = jobs.get_job(store, asked.id)
    (draft,), (schedule,) = drafts.list_drafts(store).items, list_schedules(store).items
    assert job.problem is None
    assert schedule.id == made.id
    words = [job.body["plan"], schedule.body["plan"], draft.plan]
    name = re.search("forgotten-[0-9a-f]{6}", draft.name)[0]
    assert words == [{"customers": {"eligible": f"customer_id <> '{name}'"}, name: [f"not {name}!"]}] * 3
    assert life.is_sound()
    assert life.forget(CANARY).texts == 0


@pytest.mark.parametrize(
    ("text", "customer", "after"),
    [
        ("customer_id <> 'C17'", "C17", "customer_id <> 'X'"),
        ("customer_id <> 'O''Neil'", "O'Neil", "customer_id <> 'X'"),
        ("C170 C17. xC17", "C17", "C170 X. xC17"),
        ("Zoë, Zoëlle", "Zoë", "X, Zoëlle"),
        ("17", "17", "X"),
        ("customer_id = '17' and age > 17", "17", "customer_id = 'X' and age > 17"),
        ("2027-03-17", "17", "2027-03-17"),
    ],
)
def test_an_id_has_another_name_where_it_stands_by_itself(text, customer, after):
    names = Renaming({customer: "X", "somebody else": "Y"})
    assert names.text(text) == after
    assert names.renamed == ({customer} if text != after else set())
    assert json.loads(names.json(json.dumps({text: [text, 17]}))) == {after: [after, 17]}


def test_a_number_in_a_condition_is_left_and_said(life):
    body = {"plan": {"customers": {"eligible": "customer_id <> 71356177 and age > 17"}}}
    drafts.put_draft(life.store, "numbers", body, clock=life.shop.clock)
    before = access(life.store, "71356177", tables="data/")
    assert before.records == ()
    done = life.forget("71356177")
    (sentence,) = [one for one in done.elsewhere if "drafts.plan" in one]
    assert "drafts.plan: 1 row (numbers)" in sentence
    assert access(life.store, "71356177", tables="data/") == before
    assert before.elsewhere == done.elsewhere


def test_access_and_a_rehearsal_name_the_same_places_elsewhere(life):
    """Also with what forgetting removes: plans that name the customer, results and problems of jobs, and replies."""
    clock, store, ids = life.shop.clock, life.store, ["c0001", "c0002"]
    condition = f"customer_id <> '{CANARY}' and age > 17"
    plan = life.shop.plan(campaign="without", customers={"as_of": "2027-03-01", "eligible": condition})
    keep(store, life.shop.planned(plan, life.audience(ids), features=life.features(ids)))
    for number, customer in enumerate((CANARY, "17")):
        text = json.dumps({"customer": customer, "plan": f"customer_id not in ('{customer}', 17)"})
        jobs.submit(store, "validate", {}, clock=clock)
        jobs.finish(store, jobs.claim(store, worker="one", clock=clock), text, clock=clock)
        key = f"{customer} {number}"
        reserved = replies.begin_reply(store, key, "hash", clock=clock)
        headers = {"location": f"/{customer}"}
        replies.finish_reply(store, key, reserved, status=200, headers=headers, body=text.encode())
        drafts.put_draft(store, f"draft {number}", {"customers": {"eligible": text}}, clock=clock)
    jobs.submit(store, "validate", {}, clock=clock)
    jobs.fail(store, jobs.claim(store, worker="one", clock=clock), InputError(CANARY), clock=clock)
    for customer in (CANARY, LATE, "17", "c0001"):
        kept, rehearsed = access(store, customer, tables="data/"), life.forget(customer, dry_run=True)
        assert kept.elsewhere == rehearsed.elsewhere
        assert {one.where for one in kept.records if one.place == "plan"} == {*rehearsed.plans}
        shown = {one.where.split(" ")[0] for one in kept.records if one.place == "text"}
        changed = {"drafts.name", "drafts.plan", "batches.source", "jobs.body"} & shown
        assert bool(changed) == bool(rehearsed.texts)
    texts = {one.where.split(" ")[0]: one.content for one in access(store, CANARY, tables="data/").records[1:]}
    assert CANARY in texts["replies.body"]["body"]
    assert CANARY in texts["jobs.problem"]["problem"]
    assert CANARY in texts["jobs.result"]["result"]
    assert CANARY in texts["drafts.plan"]["plan"]
