"""The planner's fields: a plan file's keys with the text that was typed, and a draft with what a form says.

A field is named by its key in the plan file, such as `depths.0.3.at_most`. A draft keeps what was typed, also where it
is no number, so that a reload shows it again; `read_plan` then says what is wrong with it. Keys without a field here
stay as they are.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from typing import Any

from disco.operations.plan_warnings import MOST_RISK
from disco.records.depths import depth_label, depth_percent, read_depth
from disco.records.errors import InfeasibleError, InputError, PlanError
from disco.views.charts.parts import depth_colour
from disco.web.reading import Form

_TEXTS = (
    "campaign",
    "customers.table",
    "customers.eligible",
    "customers.as_of",
    "include",
    "exclude",
    "segments.column",
    "policy.name",
    "valid.from",
)
_NUMBERS = (
    "contact.at_most",
    "contact.days",
    "objective.revenue_weight",
    "budget.amount",
    "budget.overspend_risk",
    "control.share",
    "holdout.share",
    "reserve.share",
    "valid.days",
)
_LIMITS = ("at_most", "at_least")
_SHARES = ("budget.overspend_risk", "control.share", "holdout.share", "reserve.share")
_WHOLE = re.compile(r"\d{1,3}(,\d{3})+|\d+", re.ASCII)
_DECIMAL = re.compile(r"(\d{1,3}(,\d{3})+|\d+)?\.\d+", re.ASCII)
_LONGEST_TEXT = 2_000
_FIRST_RISK = f"{MOST_RISK:.0%}"  # stands in the field before there is a budget, and so comes with the first amount


@dataclass(frozen=True, slots=True)
class DepthRow:
    """A depth on offer."""

    key: str
    """As the draft has it."""
    depth: float

    @property
    def name(self) -> str:
        return depth_percent(self.depth)

    @property
    def colour(self) -> str:
        return depth_colour(self.depth)

    def field(self, limit: str) -> str:
        """The name of a field."""
        return f"depths.{self.depth}.{limit}"


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """Limits of a depth for a part of the customers."""

    value: str
    row: DepthRow

    def field(self, limit: str) -> str:
        """The name of a field."""
        return f"segments.limits.{self.value}.{self.row.depth}.{limit}"


_LABELS = {
    "campaign": "Name of the campaign",
    "customers.table": "Table of customers",
    "customers.eligible": "Who may get a code",
    "customers.as_of": "As of",
    "include": "Only customers on this list",
    "exclude": "Without customers on this list",
    "segments.column": "Column of segments",
    "policy.name": "How depths are chosen",
    "valid.from": "Codes are valid from",
    "valid.days": "Days of validity",
    "contact.at_most": "Codes per customer",
    "contact.days": "Days of that limit",
    "objective.revenue_weight": "Weight of revenue",
    "budget.amount": "Budget for code cost",
    "budget.overspend_risk": "Overspend risk",
    "control.share": "Control group",
    "holdout.share": "Holdout",
    "reserve.share": "Kept for late arrivals",
}
_LIMIT = re.compile(r"(?:depths|segments\.limits\.(?P<value>.*))\.(?P<depth>\d+\.\d+)\.(?P<limit>at_most|at_least)")


def field_label(name: str) -> str:
    """What people call a field.

    >>> field_label("depths.0.3.at_most"), field_label("segments.limits.North.0.3.at_least"), field_label("campaign")
    ('30% off, at most', 'North, 30% off, at least', 'Name of the campaign')
    """
    found = _LIMIT.fullmatch(name)
    if found is None:
        return _LABELS.get(name, name)
    words = (found["value"], depth_percent(float(found["depth"])), found["limit"].replace("_", " "))
    return ", ".join(word for word in words if word)


def field_id(name: str) -> str:
    """The id of a field's element: selectors can name it."""
    if re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        return name.replace(".", "-")
    return f"field-{sha256(name.encode()).hexdigest()[:12]}"


# ---- from a draft to fields ----


def depth_rows(plan: Mapping[str, Any]) -> tuple[DepthRow, ...]:
    """The depths of a draft, ascending; keys that are no depths have no row."""
    return tuple(sorted(_rows(_section(plan, "depths")), key=lambda row: row.depth))


def segment_rows(plan: Mapping[str, Any]) -> tuple[SegmentRow, ...]:
    """The limits of segments of a draft."""
    limits = _section(_section(plan, "segments"), "limits")
    return tuple(SegmentRow(value, row) for value in limits for row in _rows(_section(limits, value)))


def _rows(section: Mapping[str, Any]) -> Iterator[DepthRow]:
    seen = set()
    for key in section:
        try:
            depth = read_depth(key)
        except InputError:
            continue  # `read_plan` says what is wrong with it
        if depth not in seen:
            seen.add(depth)
            yield DepthRow(str(key), depth)


def texts_of(plan: Mapping[str, Any]) -> dict[str, str]:
    """The text of every field, by its name."""
    found = {name: _text(_value(plan, name), share=name in _SHARES) for name in (*_TEXTS, *_NUMBERS)}
    if plan.get("budget") is None:
        found["budget.overspend_risk"] = _FIRST_RISK
    elif not isinstance(plan["budget"], Mapping):
        found["budget.amount"] = _text(plan["budget"])
    for row in depth_rows(plan):
        for limit in _LIMITS:
            found[row.field(limit)] = _text(_section(_section(plan, "depths"), row.key).get(limit), share=True)
    limits = _section(_section(plan, "segments"), "limits")
    for one in segment_rows(plan):
        for limit in _LIMITS:
            of_depth = _section(_section(limits, one.value), one.row.key)
            found[one.field(limit)] = _text(of_depth.get(limit), share=True)
    return found


def _text(value: object, *, share: bool = False) -> str:
    """A value as a person would type it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        digits = Decimal(f"{value:.10g}")  # written without an exponent, which a field would not read
        if share and 0 <= value <= 1:
            return f"{(100 * digits).normalize():f}%"
        return f"{int(value):,}" if value.is_integer() else f"{digits:,f}"
    return str(value)


def _section(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The part of a plan under a key; empty where it is no section."""
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _value(plan: Mapping[str, Any], name: str) -> object:
    first, _, second = name.partition(".")
    return _section(plan, first).get(second) if second else plan.get(first)


_SHOWN = {name.partition(".")[0] for name in (*_TEXTS, *_NUMBERS)} | {"depths"}
_SHOWN_PARTS = {name for name in (*_TEXTS, *_NUMBERS) if "." in name} | {"segments.limits", "holdout.lasting"}


def holdout_words(plan: Mapping[str, Any], *, lasting: bool) -> str:
    """Who is in the holdout of a draft; lasting: what the shop's setting says where the draft does not."""
    return "The same people in every campaign." if _section(plan, "holdout").get("lasting", lasting) is True else ""


def other_keys(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys of a draft that have no field."""
    found = []
    for key, value in plan.items():
        if key not in _SHOWN:
            found.append(str(key))
        elif isinstance(value, Mapping) and key != "depths":
            found += [f"{key}.{part}" for part in value if f"{key}.{part}" not in _SHOWN_PARTS]
    return tuple(found)


# ---- from a form to a draft ----


def revision_of(form: Form) -> int | None:
    """The revision that a page saw; None: it names none that a draft could have."""
    text = form.text("revision")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else None


def written(plan: Mapping[str, Any], form: Form) -> dict[str, Any]:
    """The draft with what a form says; fields that the form does not have, or that are too long, stay as they are."""
    form = Form({name: form.sent[name] for name in form.sent if len(form.text(name)) <= _LONGEST_TEXT})
    new: dict[str, Any] = _copy(plan)
    budget = new.get("budget")
    if not isinstance(budget, dict):
        new["budget"] = {} if budget is None else {"amount": budget}
    for name in (*_TEXTS, *_NUMBERS):
        if name in form:
            text = form.text(name)
            _put(new, name.split("."), _typed(text) if name in _NUMBERS else text or None)
    for row in depth_rows(new):
        for limit in _LIMITS:
            if row.field(limit) in form:
                _put(new, ["depths", row.key, limit], _typed(form.text(row.field(limit))), keep=True)
    for one in segment_rows(new):
        for limit in _LIMITS:
            if one.field(limit) in form:
                place = ["segments", "limits", one.value, one.row.key, limit]
                _put(new, place, _typed(form.text(one.field(limit))), keep=True)
    budget = new.get("budget")
    if budget in ({}, {"overspend_risk": _FIRST_RISK}):
        del new["budget"]
    elif isinstance(budget, dict) and list(budget) == ["amount"]:
        new["budget"] = budget["amount"]
    return new


def too_long(plan: Mapping[str, Any], form: Form) -> dict[str, str]:
    """The sentences beside fields whose texts a draft does not take, because they are too long."""
    lengths = {name: len(form.text(name)) for name in (*texts_of(plan), "new_value", "new_depth")}
    expected = f"expected at most {_LONGEST_TEXT:,}. It was not saved."
    return {name: f"Found {size:,} characters; {expected}" for name, size in lengths.items() if size > _LONGEST_TEXT}


def is_same(plan: Mapping[str, Any], form: Form) -> bool:
    """Whether the fields of a form say what the draft says."""
    return texts_of(written(plan, form)) == texts_of(plan)


def has_fields_of(plan: Mapping[str, Any], form: Form) -> bool:
    """Whether a form has exactly the fields of a draft: no depth or segment was added or removed since."""
    names = texts_of(plan)
    return all(name in form for name in names) and all(name in names for name in form.sent if _LIMIT.fullmatch(name))


def _copy(value: Any) -> Any:
    return {str(key): _copy(part) for key, part in value.items()} if isinstance(value, Mapping) else value


def _typed(text: str) -> int | float | str | None:
    """A number where the text is one; else the text, so that nothing typed is lost."""
    if not text:
        return None
    if _WHOLE.fullmatch(text) and len(text) < 20:
        return int(text.replace(",", ""))
    if _DECIMAL.fullmatch(text) and len(text) < 20:
        return float(text.replace(",", ""))
    return text


def _put(plan: dict[str, Any], place: list[str], value: object, *, keep: bool = False) -> None:
    """Set a key, or remove it; a section that becomes empty goes with it. keep: the section stays, as a depth does."""
    section = plan
    for key in place[:-1]:
        if not isinstance(section.get(key), dict):
            if value is None:
                return
            section[key] = {}
        section = section[key]
    if value is not None:
        section[place[-1]] = value
    else:
        section.pop(place[-1], None)
        if not section and not keep:
            plan.pop(place[0], None)


def with_depth(plan: Mapping[str, Any], text: str, *, cap_of: Callable[[float], str]) -> dict[str, Any]:
    """The draft with another depth and its first cap. InputError where the text is no depth, or one that is there."""
    depth, new = read_percent(text), _copy(plan)
    if any(row.depth == depth for row in depth_rows(plan)):
        raise InputError("depth", found=depth_percent(depth), expected="a depth that is not on offer yet")
    new["depths"] = {**_section(new, "depths"), depth_label(depth): {"at_most": cap_of(depth)}}
    return dict(new)


def without_depth(plan: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The draft without a depth, and without limits of segments for it."""
    new = _copy(plan)
    gone = next((row.depth for row in depth_rows(new) if row.key == key), None)
    _section(new, "depths").pop(key, None)  # type: ignore[attr-defined]
    for one in segment_rows(new):
        if one.row.depth == gone:
            new = without_segment(new, one.value, one.row.key)
    return dict(new)


def with_segment(plan: Mapping[str, Any], value: str, key: str) -> dict[str, Any]:
    """The draft with limits for a value of the segments' column at a depth on offer."""
    new = _copy(plan)
    if not value:
        raise InputError("value", found="nothing", expected="a value of the column, such as North")
    if not _section(new, "segments").get("column"):
        raise InputError("segments.column", found="nothing", expected="the column whose values have limits")
    row = next((row for row in depth_rows(new) if row.key == key), None)
    if row is None:
        raise InputError("value", found=key or "no depth", expected="a depth on offer")
    limits = _section(_section(new, "segments"), "limits")
    of_value = _section(limits, value)
    if any(one.depth == row.depth for one in _rows(of_value)):
        raise InputError("value", found=f"{value} at {row.name}", expected="limits that are not there yet")
    new["segments"]["limits"] = {**limits, value: {**of_value, row.key: {}}}
    return dict(new)


def without_segment(plan: Mapping[str, Any], value: str, key: str) -> dict[str, Any]:
    """The draft without limits for a value at a depth; other limits stay as they are."""
    new = _copy(plan)
    limits = dict(_section(_section(new, "segments"), "limits"))
    if value not in limits:
        return dict(new)
    of_value = {depth: one for depth, one in _section(limits, value).items() if depth != key}
    if of_value:
        limits[value] = of_value
    else:
        del limits[value]
    if limits:
        new["segments"]["limits"] = limits
    else:
        del new["segments"]["limits"]
    return dict(new)


def read_percent(text: str) -> float:
    """A depth as operators write it: 25, 25% and 0.25 are 25% off."""
    number = _typed(text.strip().removesuffix("off").strip().removesuffix("%").strip())
    if isinstance(number, int | float) and 1 <= number < 100:
        return read_depth(f"{number / 100:.10g}")
    if isinstance(number, float) and 0 < number < 1 and "%" not in text:
        return read_depth(number)
    raise InputError("depth", found=repr(text[:40]) if text else "nothing", expected="a percentage, such as 25%")


# ---- what is wrong, by field ----


def errors_of(error: PlanError, names: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The sentences of a plan that cannot be used: by field, and those that belong to no field.

    names: of the fields that are shown.
    """
    by_field: dict[str, str] = {}
    others: list[str] = []
    for problem in error.problems:
        key = problem.file.partition(", ")[2]
        fix = "" if problem.fix.startswith(("Correct the plan", "Add `")) else f" {problem.fix}"
        missing = problem.kind == "missing"
        needed = "Limits for a value are needed." if key == "segments.limits" else "A value is needed."
        sentence = needed if missing else f"Found {problem.found}; expected {problem.expected}.{fix}"
        name = _field_of(key, names)
        if name is not None:
            by_field.setdefault(name, sentence)
        elif missing:
            others.append(f"The plan has no {key}.")
        else:
            others.append(f"{key[:1].upper()}{key[1:]}: {sentence}" if key else f"Expected {problem.expected}.")
    return by_field, tuple(others)


def error_field(error: InputError, names: Mapping[str, str]) -> str | None:
    """The field that an error of reading the customers is about; None: it is about none."""
    return _field_of(error.what, names)


_FIELDS_OF_SECTIONS = {
    "customers": "customers.eligible",
    "objective": "objective.revenue_weight",
    "budget": "budget.amount",
    "contact": "contact.at_most",
    "valid": "valid.days",
    "segments": "segments.column",
    "segments.limits": "segments.column",
}


def _field_of(key: str, names: Mapping[str, str]) -> str | None:
    if key in names:
        return key
    if key in _FIELDS_OF_SECTIONS:
        return _FIELDS_OF_SECTIONS[key]
    return "customers.table" if key.startswith("customers of ") else None


def conflict_fields(error: InfeasibleError, plan: Mapping[str, Any]) -> dict[str, str]:
    """Conflicts of limits beside the floors and the budget that they name, where they can be told apart."""
    found: dict[str, str] = {}
    for conflict in error.conflicts:
        if "budget" in conflict:
            found.setdefault("budget.amount", conflict)
        for row in depth_rows(plan):
            if row.name in conflict or re.search(rf"(?<![\d.]){re.escape(depth_label(row.depth))}(?!\d)", conflict):
                found.setdefault(row.field("at_least"), conflict)
    return found
