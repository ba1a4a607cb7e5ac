"""A German shop with its own tables, from `init` to `results`, against what the script that made it knows.

Semicolons, decimal commas, days first with times of day, cp1252, umlauts, names of its own, euro, the clock of Berlin;
no returns, no site table, no codes among the orders. Purchases come back as an export of orders in the same form.
"""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from disco.entrypoints import cli

# what this shop says about itself in disco.yaml
SETTINGS = """
currency: EUR
time_zone: Europe/Berlin
columns:
  customers: {customer_id: Kundennummer, joined_on: Registriert}
  orders: {order_id: Bestellnummer, customer_id: Kundennummer, ordered_at: Bestellzeit, full_price: Warenwert}
  outcomes: {code: Gutschein}
csv: {decimal: ",", dates: "%d.%m.%Y", encoding: cp1252}
"""
PLAN = """
campaign: {name}
customers: {{table: customers, eligible: "Stadt in ('Köln', 'München')", as_of: {start}}}
depths: {{0.10: {{at_most: 30%}}, 0.20: {{at_most: 30%}}, 0.30: {{at_most: 30%}}}}
objective: {{revenue_weight: 3}}
{policy}
valid: {{from: {start}, days: 14}}
codes: {{prefix: HERBST}}
seed: 7
"""
CITIES = ("Köln", "München", "Düsseldorf")
CUSTOMERS = 500
OPENED, FIRST_START, SECOND_START = datetime(2024, 8, 1), datetime(2026, 9, 1), datetime(2026, 10, 1)
VALID = timedelta(days=14)


def euro(amount: float) -> str:
    """1234.5 as 1.234,50."""
    return f"{amount:,.2f}".translate(str.maketrans(",.", ".,"))


@dataclass
class GermanShop:
    """Customers, what they spend, and the files in which their shop keeps it."""

    folder: Path
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(11))
    orders: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.level = self.rng.normal(4.0, 0.5, CUSTOMERS)  # of ln(basket value)
        self.rate = self.rng.gamma(2.0, 3.0, CUSTOMERS) / 365  # orders per day
        self.city = [CITIES[at] for at in self.rng.integers(0, len(CITIES), CUSTOMERS)]
        self.ids = [f"{number:05d}" for number in range(CUSTOMERS)]  # zeros in front

    def bought(self, customer: int, when: datetime, *, depth: float = 0.0, code: str = "") -> dict[str, str]:
        """An order as the shop exports it; deeper discounts make larger baskets."""
        price = np.exp(self.level[customer] + 0.8 * depth + self.rng.normal(0, 0.4))
        order = {
            "Bestellnummer": f"B-{len(self.orders):06d}",
            "Kundennummer": self.ids[customer],
            "Bestellzeit": f"{when:%d.%m.%Y %H:%M}",
            "Warenwert": euro(round(float(price), 2)),
            "Gutschein": code,
        }
        self.orders.append(order)
        return order

    def live(self, since: datetime, until: datetime) -> list[dict[str, str]]:
        """Ordinary orders."""
        made = []
        for customer in range(CUSTOMERS):
            for day in np.flatnonzero(self.rng.random((until - since).days) < self.rate[customer]):
                minutes = int(self.rng.integers(0, 24 * 60))
                made.append(self.bought(customer, since + timedelta(days=int(day), minutes=minutes)))
        return made

    def write(self, name: str, rows: Iterable[dict[str, str]], columns: list[str]) -> Path:
        path = self.folder / name
        with path.open("w", encoding="cp1252", newline="") as file:
            table = csv.DictWriter(file, columns, delimiter=";", extrasaction="ignore", lineterminator="\r\n")
            table.writeheader()
            table.writerows(rows)
        return path

    def write_tables(self) -> None:
        people = (
            {
                "Kundennummer": one,
                "Name": f"Jürgen Groß {number}",
                "Stadt": self.city[number],
                "Registriert": f"{OPENED + timedelta(days=number % 300):%d.%m.%Y}",
            }
            for number, one in enumerate(self.ids)
        )
        self.write("data/customers.csv", people, ["Kundennummer", "Name", "Stadt", "Registriert"])
        self.write("data/orders.csv", self.orders, ["Bestellnummer", "Kundennummer", "Bestellzeit", "Warenwert"])

    def export(self, name: str, rows: Iterable[dict[str, str]]) -> Path:
        return self.write(name, rows, ["Bestellnummer", "Kundennummer", "Gutschein", "Bestellzeit", "Warenwert"])


@dataclass(frozen=True)
class Answers:
    """What customers did with the codes of a campaign: the orders, and the sums that results must show."""

    orders: list[dict[str, str]]
    counted: int
    revenue: float
    markdown: float


def answers(shop: GermanShop, codes: Path, start: datetime) -> Answers:
    """A share of the customers use their code, more of them at deeper discounts; one in time, one too late."""
    rows = list(csv.DictReader(codes.read_text(encoding="utf-8-sig").splitlines()))
    orders, prices, depths = [], [], []
    for row in rows:
        customer, depth = shop.ids.index(row["customer_id"]), float(row["depth"])
        if shop.rng.random() < 0.3 + depth:
            when = start + timedelta(minutes=int(shop.rng.integers(0, 14 * 24 * 60)))
            if not orders:
                when = start  # the first minute counts, by the clock of Berlin …
            orders.append(shop.bought(customer, when, depth=depth, code=row["code_id"].lower()))
            prices.append(float(orders[-1]["Warenwert"].replace(".", "").replace(",", ".")))
            depths.append(depth)
    unused = next(row for row in rows if all(order["Gutschein"] != row["code_id"].lower() for order in orders))
    late = shop.bought(shop.ids.index(unused["customer_id"]), start + VALID, code=unused["code_id"])  # … but not this
    full_price, depth = np.array(prices), np.array(depths)
    return Answers(
        [*orders, late], len(orders), float((full_price * (1 - depth)).sum()), float((full_price * depth).sum())
    )


@pytest.fixture
def disco(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Runs `disco ARGUMENTS --json` in this process, which has to succeed."""

    def run(*arguments: object) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", ["disco", *map(str, arguments), "--json"])
        with redirect_stdout(io.StringIO()) as shown, pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code, arguments
        found: dict[str, Any] = json.loads(shown.getvalue())
        return found

    return run


def test_a_german_shop_goes_from_its_own_tables_to_results(disco: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "laden"
    disco("init", folder)
    for example in (folder / "data").iterdir():
        example.unlink()
    settings = (folder / "disco.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    settings = [line for line in settings if not line.startswith(("currency:", "time_zone:"))]
    (folder / "disco.yaml").write_text("".join(settings) + SETTINGS, encoding="utf-8")
    shop = GermanShop(folder)
    shop.live(OPENED, FIRST_START)
    shop.write_tables()

    checked = disco("validate", folder / "data", "--as-of", "2026-08-31")
    assert (checked["clean"], checked["rows"]) == (True, {"customers": CUSTOMERS, "orders": len(shop.orders)})
    assert "orders.csv: columns are separated by semicolons" in checked["notes"]
    disco("train", "context", "--tables", folder / "data", "--window-start", "2026-05-01", "--max-epochs", 2,
          "-o", folder / "context.safetensors")  # fmt: skip

    eligible = sum(city != "Düsseldorf" for city in shop.city)
    first = campaign(disco, shop, "erste", FIRST_START, policy="policy: {name: random}")
    assert first["planned"]["customers"] == eligible
    assert first["results"]["arms"]["decided"]["summary"]["customers"] == eligible
    shop.live(FIRST_START, SECOND_START)
    shop.write_tables()  # a month later

    second = campaign(disco, shop, "zweite", SECOND_START, policy="control: {share: 30%}\nholdout: {share: 5%}")
    assert second["planned"]["version"] == 1
    assert second["planned"]["total"]["revenue"]["lower"] < second["truth"].revenue
    assert second["results"]["expected"] is not None
    assert set(second["results"]["arms"]) == {"decided", "control", "holdout"}
    assert disco("campaigns", "--shop", folder)["campaigns"]


def campaign(disco: Callable[..., Any], shop: GermanShop, name: str, start: datetime, *, policy: str) -> dict[str, Any]:
    """Plan, launch, export, ingest, learn and read out; every figure is compared with the shop's own."""
    here = ("--shop", shop.folder)
    plan = shop.folder / f"{name}.yaml"
    plan.write_text(PLAN.format(name=name, start=f"{start:%Y-%m-%d}", policy=policy), encoding="utf-8")
    verdict = disco("validate", plan)
    assert verdict["warnings"] == []
    planned = disco("plan", plan, *here)
    assert verdict["eligible"] == planned["customers"]
    disco("launch", planned["plan_id"], *here)
    disco("export", name, "-o", shop.folder / f"{name}.csv", *here)

    truth = answers(shop, shop.folder / f"{name}.csv", start)
    beside = shop.live(start, start + VALID)[:50]  # ordinary orders of the same days are in the export, too
    half = len(truth.orders) // 2
    monday = disco("ingest", name, shop.export("montag.csv", [*truth.orders[:half], *beside]), *here)
    assert (monday["applied"], monday["unmatched"]) == (half, len(beside))
    whole = disco("ingest", name, shop.export("ganz.csv", [*beside, *truth.orders]), *here)
    assert {fate: whole[fate] for fate in ("applied", "duplicate", "expired", "unmatched", "rejected")} == {
        "applied": truth.counted - half,
        "duplicate": half,
        "expired": 1,
        "unmatched": len(beside),
        "rejected": 0,
    }
    row = next(reason["first_row"] for reason in whole["reasons"] if reason["disposition"] == "expired")
    assert row == 1 + len(beside) + len(truth.orders), "as the spreadsheet shows it"

    end = f"{start + VALID + timedelta(days=7):%Y-%m-%d}"
    disco("learn", name, "--as-of", end, *here)
    results = disco("results", name, "--as-of", end, *here)
    groups = [group["summary"] for group in results["arms"].values()]
    assert sum(group["purchasers"] for group in groups) == truth.counted
    assert sum(group["revenue"] for group in groups) == pytest.approx(truth.revenue)
    assert sum(group["markdown"] for group in groups) == pytest.approx(truth.markdown)
    assert results["currency"] == "EUR"
    return {"planned": planned, "results": results, "truth": truth}
