"""`./run drill service tables`: small files that unpack to much: many columns, equal rows, many arms, nesting,
long texts behind a dictionary, many row groups, ragged lines, lists in JSON.

Each of them is sent to every route that reads its kind, and read by a job where there is one. Each is refused with a
sentence, while others are answered as usual and the memory of server and worker stays small.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
from running_shop import CAMPAIGN, Served
from service_slow import Watch, memory, served_shop

PARQUET, CSV, JSON = "application/vnd.apache.parquet", "text/csv", "application/json"
_OUTCOMES, _TABLE, _AB = f"/campaigns/{CAMPAIGN}/outcomes?dry_run=true", "/tables/customers", "/ab"
_EVERY = (_OUTCOMES, _TABLE, _AB)
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Bomb:
    """A file, where it is sent, and the status of its refusal."""

    name: str
    kind: str
    content: bytes
    routes: tuple[str, ...]
    status: int = 422


@dataclass(slots=True)
class TablesDrill:
    """What became of it."""

    rows: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def bombs(*, scale: float = 1.0) -> Iterator[Bomb]:
    """One after the other, so that only one is in memory. scale: 1: as large as the limits of a body let them be."""
    commas = int(32_000_000 * scale)
    yield Bomb("half a megabyte of columns", CSV, b"," * 250_000 + b"\n" + b"," * 250_000 + b"\n", _EVERY)
    yield Bomb("a header of nothing but columns", CSV, b"a," * commas, _EVERY)
    yield Bomb("a header that is never closed", CSV, b'customer_id,"' + b"a" * commas, _EVERY)
    ragged = b"customer_id,code,ordered_at,full_price\n" + b"x\n" * 450_000
    yield Bomb("ragged lines", CSV, ragged, (_OUTCOMES, _TABLE))
    yield Bomb(
        "more ragged lines than rows", CSV, b"customer_id,joined_on\n" + b"x\n" * (commas - 1_000), (_OUTCOMES, _TABLE)
    )
    yield Bomb("190,000 arms", CSV, _arms(190_000), (_AB,))
    rows = int(40_000_000 * scale)
    yield Bomb("equal rows", PARQUET, _parquet(_customers(rows)), _EVERY)
    yield Bomb("equal rows of outcomes", PARQUET, _parquet(_outcomes(int(5_000_000 * scale) + 1)), (_OUTCOMES,))
    wide = pa.table({f"column_{at}": [1] for at in range(5_000)})
    yield Bomb("5,000 columns", PARQUET, _parquet(wide), _EVERY)
    nested = pa.table({"customer_id": pa.array([[{f"leaf_{at}": at for at in range(2_000)}]])})
    yield Bomb("2,000 nested columns", PARQUET, _parquet(nested), _EVERY)
    lists = pa.table({"customer_id": pa.array([list(range(2_000_000))]), "joined_on": pa.array([1])})
    yield Bomb("an id that is a list", PARQUET, _parquet(lists), (_OUTCOMES, _TABLE))
    long = _repeated("x" * (1 << 20), int(100_000 * scale) + 1_000)
    texts = {name: long if name == "event_id" else column for name, column in _columns(len(long)).items()}
    yield Bomb("a long text in a dictionary", PARQUET, _parquet(pa.table(texts)), (_OUTCOMES,))
    middle = _repeated("x" * 1_000, 200_000)
    spread = pa.table({**_columns(200_000), "event_id": middle, "customer_id": middle, "refers_to": middle})
    whole = pa.concat_tables([spread] * 2)
    yield Bomb("texts over many row groups", PARQUET, _parquet(whole, row_group_size=100_000), (_OUTCOMES,))
    zeros = pa.table({"customer_id": pa.array(["0" * (300 << 20)], pa.large_string()), "joined_on": ["2026-01-01"]})
    cell = _parquet(zeros, use_dictionary=False, write_statistics=False)  # which would take 5 s, and tell of its size
    yield Bomb("a compressed cell of 300 MB", PARQUET, cell, (_OUTCOMES, _TABLE))
    groups = _parquet(_customers(5_000), row_group_size=1)
    yield Bomb("a row group for each row", PARQUET, groups, (_TABLE,))
    yield Bomb("empty lists", JSON, b'{"arm":[' + b"[]," * (commas // 7) + b"[]]}", (_AB,), 400)
    yield Bomb("empty objects", JSON, b"[" + b"{}," * (commas // 7) + b"{}]", (_OUTCOMES,), 400)
    yield Bomb("a list beyond its size", JSON, b"[" + b"0," * 9_000_000 + b"0]", (_OUTCOMES, _AB), 413)


def tables_drill(
    *,
    scale: float = 1.0,
    on: tuple[Served, str] | None = None,
    timed: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> TablesDrill:
    """Send all of them. on: a server that is there already, and a key. timed: promises about seconds count, too."""
    done = TablesDrill()
    with served_shop() if on is None else nullcontext(on) as (served, key):
        with Watch(served, key) as watch:
            for bomb in bombs(scale=scale):
                for route in bomb.routes:
                    _send(served, key, bomb, route, done)
                    say(done.rows[-1])
            _checked_by_a_job(served, key, done)
            say(done.rows[-1])
        done.rows.append(watch.row("all of them"))
        say(done.rows[-1])
        done.problems += watch.problems(timed=timed)
    return done


def _send(served: Served, key: str, bomb: Bomb, route: str, done: TablesDrill) -> None:
    before, began = memory(served.process.pid), time.monotonic()
    with Watch(served, key) as watch, served.client(key) as client:
        method = "PUT" if route == _TABLE else "POST"
        answer = client.request(
            method, route, content=bomb.content, headers={"content-type": bomb.kind}, timeout=_SECONDS
        )
    seconds = time.monotonic() - began
    sentence = answer.json().get("detail", "")[:90].replace("\n", " ")
    more = max(0, watch.most_bytes - before) / 1e6
    sent = f"{bomb.name:<32} {len(bomb.content) / 1e6:5.1f} MB to {route.partition('?')[0]:<28}"
    done.rows.append(f"{sent} {answer.status_code} after {seconds:4.1f} s, {more:+5.0f} MB: {sentence}")
    if answer.status_code != bomb.status:
        done.problems.append(f"{bomb.name} to {route}: {answer.status_code}, expected {bomb.status}")


def _checked_by_a_job(served: Served, key: str, done: TablesDrill) -> None:
    """None of the files has taken the place of a table: the worker finds the shop's own without a problem."""
    with served.client(key) as client:
        began = time.monotonic()
        job = client.post("/validate", json={}).json()["job"]
        while (found := client.get(f"/jobs/{job}").json())["state"] not in ("done", "failed", "cancelled"):
            assert time.monotonic() - began < _SECONDS, found
            time.sleep(0.2)
    done.rows.append(
        f"{'the tables of the shop, by a job':<32} {found['state']} after {time.monotonic() - began:.1f} s"
    )
    if found["state"] != "done":
        done.problems.append(f"the shop's own tables: {json.dumps(found['problem'])[:200]}")


def _parquet(table: pa.Table, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **{"compression": "zstd", **options})
    return bytes(sink.getvalue())


def _repeated(text: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([text]))


def _customers(rows: int) -> pa.Table:
    joined = pa.scalar(datetime(2026, 1, 1, tzinfo=UTC).date())
    return pa.table({"customer_id": pa.repeat(pa.scalar(7), rows), "joined_on": pa.repeat(joined, rows)})


def _columns(rows: int) -> dict[str, pa.Array]:
    cells = {
        "event_id": "e1",
        "campaign_id": CAMPAIGN,
        "customer_id": "1",
        "code": "NONE",
        "ordered_at": "2026-03-01",
        "full_price": "50",
        "kind": "purchase",
    }
    return {name: _repeated(value, rows) for name, value in cells.items()}


def _outcomes(rows: int) -> pa.Table:
    return pa.table(_columns(rows))


def _arms(count: int) -> bytes:
    return b"arm,depth,full_price\n" + b"".join(b"a%d,0.1,%d\n" % (at, at % 90) for at in range(count))
