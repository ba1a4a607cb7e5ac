"""`./run drill warehouse`: a plan from tables in PostgreSQL, DuckDB and Delta, and its codes and results back in them.

In each place the tables of a simulated retailer are loaded, and a shop reads them from there, plans and launches a
campaign, and exports twice; the second time must change nothing. All three shops must decide alike. Then the connection
of an export is ended while it waits to write, and it is run again.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from trial_server import TrialServer, trial_server

from disco.entrypoints.python import Shop

DISCO = Path(sys.executable).with_name("disco")
_WAITING = "SELECT {} FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
TABLES = ("customers", "orders", "returns", "codes", "site")
PLAN = """campaign: autumn
customers: {table: customers, as_of: 2025-09-01}
depths: {0.10: {at_most: 30%}, 0.20: {at_most: 20%}}
objective: {revenue_weight: 3}
policy: {name: thompson}
control: {share: 10%}
valid: {from: 2025-09-02, days: 14}
seed: 42
"""


def main() -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="disco-warehouse-")))
        data = folder / "raw"
        disco("simulate", "--customers", "3000", "--seed", "7", "-o", data)
        tables = {name: pq.read_table(data / f"{name}.parquet") for name in TABLES}
        server = stack.enter_context(trial_server())
        server.execute("CREATE DATABASE warehouse")
        places: dict[str, tuple[str, Callable[[str], int]]] = {
            "duckdb": (f"duckdb:///{folder}/w.duckdb", lambda name: rows_of_duckdb(folder / "w.duckdb", name)),
            "delta": (f"delta:///{folder}/lake", lambda name: DeltaTable(folder / "lake" / name).count()),
            "postgresql": (server.url("warehouse"), lambda name: rows_of_postgresql(server, name)),
        }
        load_duckdb(folder / "w.duckdb", tables)
        load_delta(folder / "lake", tables)
        load_postgresql(server.url("warehouse"), tables)
        sent = {name: life(folder / name, *place) for name, place in places.items()}
        kinds = {name: codes.sort_by("code_id").to_pylist() for name, codes in sent.items()}
        # codes are drawn by a secret of each shop, so depths are compared, by customer
        depths = {name: {row["customer_id"]: row["depth"] for row in rows} for name, rows in kinds.items()}
        assert depths["duckdb"] == depths["delta"] == depths["postgresql"], "shops decided differently"
        print(f"{len(depths['delta']):,} equal decisions from three warehouses")
        ended_in_the_middle(folder / "postgresql", places["postgresql"][0], server)
    return 0


def life(folder: Path, url: str, rows: Callable[[str], int]) -> pa.Table:
    """Train, plan and launch from tables in the warehouse; export everything twice. The codes."""
    started = time.monotonic()
    folder.mkdir()
    (folder / "plan.yaml").write_text(PLAN)
    (folder / "disco.yaml").write_text(f"data: {url}\n")
    network = folder / "context.safetensors"
    disco("train", "context", "--tables", url, "--window-start", "2025-06-01", "--max-epochs", "2", "-o", network)
    disco("validate", url, "--as-of", "2025-09-01", "--shop", folder)
    disco("plan", folder / "plan.yaml", "--shop", folder)
    disco("launch", "autumn", "--shop", folder)
    disco("export", "autumn", "-o", folder / "codes.parquet", "--shop", folder)
    codes = pq.read_table(folder / "codes.parquet")
    shop = Shop.open(folder)
    for again in (False, True):
        for kind in ("codes", "decisions", "results"):
            put = shop.export_to("autumn", f"{url}#disco_{kind}", kind=kind)
            assert put.changed is not again, (url, kind, "a second export changed something")
            assert rows(f"disco_{kind}") == put.rows, (url, kind)
    assert rows("disco_codes") == codes.num_rows
    seconds, kind = time.monotonic() - started, url.partition("://")[0]
    print(f"{seconds:6.1f} s  {kind:10}  {codes.num_rows:,} codes exported twice, there once", flush=True)
    return codes


def ended_in_the_middle(shop: Path, url: str, server: TrialServer) -> None:
    """The server ends the connection of an export that waits to write; what was there stays, and it is run again."""
    with psycopg.connect(url) as other:
        other.execute("DELETE FROM disco_codes")
        other.commit()
        other.execute("LOCK TABLE disco_codes IN ACCESS EXCLUSIVE MODE")
        command = [str(DISCO), "export", "autumn", "--to", f"{url}#disco_codes", "--shop", str(shop)]
        running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        while running.poll() is None and not server.execute(_WAITING.format("1")):
            time.sleep(0.1)
        server.execute(_WAITING.format("pg_terminate_backend(pid)"))
        _, said = running.communicate(timeout=60)
        assert running.returncode == 1, said
        assert "run the command again" in said, said
        assert "Traceback" not in said, said
    assert rows_of_postgresql(server, "disco_codes") == 0
    disco(*command[1:])
    assert rows_of_postgresql(server, "disco_codes") > 0
    print(f"ended in the middle: {said.strip()[:160]}… and run again")


def load_duckdb(file: Path, tables: dict[str, pa.Table]) -> None:
    with duckdb.connect(str(file)) as there:
        for name, table in tables.items():
            there.register("given", table)
            there.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            there.unregister("given")


def load_delta(folder: Path, tables: dict[str, pa.Table]) -> None:
    for name, table in tables.items():
        write_deltalake(folder / name, table)


def load_postgresql(url: str, tables: dict[str, pa.Table]) -> None:
    """Columns as the Arrow types are, loaded by COPY."""
    with psycopg.connect(url) as there:
        for name, table in tables.items():
            columns = ", ".join(f'"{field.name}" {sql_type(field.type)}' for field in table.schema)
            there.execute(f"CREATE TABLE {name} ({columns})".encode())
            with there.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
                for batch in table.to_batches(50_000):
                    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                        copy.write_row(row)


def sql_type(kind: pa.DataType) -> str:
    names = {
        pa.types.is_integer: "bigint",
        pa.types.is_floating: "double precision",
        pa.types.is_timestamp: "timestamp",
    }
    names |= {pa.types.is_date: "date", pa.types.is_boolean: "boolean"}
    return next((sql for is_kind, sql in names.items() if is_kind(kind)), "text")


def rows_of_duckdb(file: Path, name: str) -> int:
    with duckdb.connect(str(file), read_only=True) as there:
        return int(there.sql(f"SELECT count(*) FROM {name}").fetchall()[0][0])


def rows_of_postgresql(server: TrialServer, name: str) -> int:
    return int(server.execute(f"SELECT count(*) FROM {name}", database="warehouse")[0][0])


def disco(*arguments: Any) -> None:
    command = [str(DISCO), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
