"""Raw exports as shops have them, small and made from a seed, after the formats of public data sets."""

import csv
import random
import zipfile
from datetime import datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import escape

import yaml

END = datetime(2026, 3, 1)

LINES = {
    "csv": {"dates": "%m/%d/%Y", "encoding": "cp1252"},
    "lines": {
        "table": "online.csv",
        "order_id": "InvoiceNo",
        "customer_id": "CustomerID",
        "ordered_at": "InvoiceDate",
        "quantity": "Quantity",
        "unit_price": "UnitPrice",
        "customer_columns": ["Country"],
    },
}
"""The settings of `order_lines`."""
PAYMENTS = {
    "csv": {"dates": "%d-%b-%Y", "decimal": ","},
    "currency": "EUR",
    "lines": {
        "table": "zahlungen.csv",
        "order_id": "Auftrag",
        "customer_id": "Kunde",
        "ordered_at": "Datum",
        "amount": "Betrag",
        "currency": "Waehrung",
    },
}
"""The settings of `payments`."""
SHEET = {
    "queries": {
        "orders": 'SELECT "Order" AS order_id, "E-mail" AS customer_id, "Date" AS ordered_at, "Total" AS full_price '
        "FROM 'sales.xlsx' WHERE \"Total\" > 0",
        "customers": 'SELECT "E-mail" AS customer_id, min("Date") AS joined_on FROM \'sales.xlsx\' GROUP BY 1',
    }
}
"""The settings of `workbook`."""


def visits(customers: int, *, seed: int, guests: float = 0.0) -> list[tuple[datetime, int | None]]:
    """When who ordered in two years, in time order; None: a guest."""
    rng = random.Random(seed)
    found: list[tuple[datetime, int | None]] = []
    for customer in range(customers):
        for _ in range(rng.randint(2, rng.choice([6, 12, 20]))):
            day = END - timedelta(days=1 + rng.random() * 730)
            found.append((day.replace(hour=rng.randint(8, 19), second=0, microsecond=0), customer))
            if rng.random() < guests:
                found.append((day.replace(hour=20, second=0, microsecond=0), None))
    return sorted(found, key=lambda visit: (visit[0], visit[1] or -1))


def order_lines(folder: Path, *, customers: int = 400, seed: int = 1) -> None:
    """After UCI "Online Retail": lines of invoices, cancellations as C-invoices, guests, M/D/YYYY, cp1252."""
    rng, rows, number = random.Random(seed), [], 536365

    def text(day: datetime) -> str:
        return f"{day.month}/{day.day}/{day.year} {day.hour}:{day.minute:02d}"

    for day, customer in visits(customers, seed=seed, guests=0.2):
        who = "" if customer is None else 12346 + customer
        lines = [(f"{rng.randrange(20000, 23000)}A", rng.randint(1, 12), rng.choice([0.85, 2.55, 7.95])) for _ in "abc"]
        number += 1
        for article, count, price in lines[: rng.randint(1, 3)]:
            rows.append(
                [number, article, "CAFÉ MUG", count, text(day), price, who, "France" if number % 9 else "Spain"]
            )
        if who and rng.random() < 0.08:
            number += 1
            article, count, price = lines[0]
            back = min(day + timedelta(days=3), END - timedelta(hours=1))
            rows.append([f"C{number}", article, "CAFÉ MUG", -count, text(back), price, who, "France"])
    with (folder / "online.csv").open("w", newline="", encoding="cp1252") as file:
        writer = csv.writer(file)
        first = ["InvoiceNo", "StockCode", "Description", "Quantity"]
        writer.writerows([[*first, "InvoiceDate", "UnitPrice", "CustomerID", "Country"], *rows])


def payments(folder: Path, *, customers: int = 400, seed: int = 2) -> None:
    """One row per payment, orders paid in up to three; dates as 7-Mar-2025, decimal commas, ids of two systems."""
    rng, rows = random.Random(seed), ["Auftrag;Kunde;Datum;Betrag;Waehrung"]
    for place, (day, customer) in enumerate(visits(customers, seed=seed)):
        order = f"K{place}" if place % 5 == 0 else str(100_000 + place)
        for _ in range(rng.randint(1, 3)):
            amount = f"{rng.uniform(8, 1400):,.2f}".translate(str.maketrans(",.", ".,"))
            rows.append(f"{order};{7000 + (customer or 0)};{day.day}-{day:%b-%Y};{amount};EUR")
    (folder / "zahlungen.csv").write_text("\n".join(rows) + "\n")


def workbook(folder: Path, *, customers: int = 150, seed: int = 3) -> None:
    """A small shop's list of sales in Excel: dates as dates, refunds with totals below 0."""
    rng = random.Random(seed)
    rows: list[list[object]] = [["Order", "Date", "E-mail", "Total"]]
    for place, (day, customer) in enumerate(visits(customers, seed=seed)):
        total = round(rng.uniform(12, 180), 2) * (-1 if rng.random() < 0.03 else 1)
        rows.append([place + 1, day, f"person{customer}@example.com", total])
    write_workbook(folder / "sales.xlsx", rows)


def write_workbook(path: Path, rows: list[list[object]]) -> None:
    """The least .xlsx that programs read: one sheet, texts in the cells, dates as days since 1899-12-30 in style 1."""

    def cell(value: object) -> str:
        if value is None:
            return "<c/>"
        if isinstance(value, datetime):
            days = (value - datetime(1899, 12, 30)) / timedelta(days=1)
            return f'<c s="1"><v>{days!r}</v></c>'
        if isinstance(value, int | float):
            return f"<c><v>{value!r}</v></c>"
        return f'<c t="inlineStr"><is><t>{escape(str(value))}</t></is></c>'

    lines = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kind}.worksheet+xml"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{kind}.styles+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="r1" Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
        '<sheet name="Sales" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="r1" Type="{office}/worksheet" Target="worksheets/sheet1.xml"/>'
        f'<Relationship Id="r2" Type="{office}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{main}"><cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="22"/>'
        "</cellXfs></styleSheet>",
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name, content)


def write_settings(shop: Path, settings: dict[str, object], **more: object) -> None:
    (shop / "disco.yaml").write_text(yaml.safe_dump(settings | more))
