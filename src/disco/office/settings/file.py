"""Changes to disco.yaml by the service: single settings are replaced, everything else stays as it was written."""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from disco.adapters.config import FILE, ShopSettings, load_settings
from disco.office.approvals.use_cases import read_approval, set_approval
from disco.office.audit.use_cases import note_file
from disco.records.errors import InputError, PlanError, StateError
from disco.records.files import temporary_folder, written_whole
from disco.records.people import ApprovalRule

if TYPE_CHECKING:
    from disco.adapters.shop import ShopFolder

CHANGEABLE = ("queries", "columns", "csv", "currency", "time_zone", "model", "engagement", "threads")
"""Settings that a caller of the service may change. The others name files, databases, proxies and secrets of the
machine, which belong to whoever runs it."""
_ONE_AT_A_TIME = threading.Lock()


def shown_settings(settings: ShopSettings, approval: ApprovalRule) -> dict[str, Any]:
    """The settings without passwords; approval: what is in force, which the database may make stricter."""
    from disco.store.store import shown_url

    form = settings.model_dump(mode="json") | {"approval": str(approval)}
    return form | {name: shown_url(form[name]) for name in ("database_url", "data")}


def change_shop(shop: "ShopFolder", changes: Mapping[str, Any]) -> ShopSettings:
    """Change settings by their names: those of disco.yaml there, and `approval` in the database."""
    own = {name: value for name, value in changes.items() if name != "approval"}
    rule = read_approval(changes["approval"]) if "approval" in changes else None  # before anything is written
    settings = change_settings_of(shop, own) if own else shop.settings
    if rule is not None:
        with shop.store() as store:
            set_approval(store, rule, rule=settings.approval)
    return settings


def change_settings_of(shop: "ShopFolder", changes: Mapping[str, Any]) -> ShopSettings:
    """Change the settings of a shop, for whoever it is held open by: the journal names them. StateError where the
    campaigns that were launched need the old ones."""

    def accept(settings: ShopSettings) -> None:
        if settings.locale != shop.settings.locale:
            with replace(shop, settings=settings, held_store=None).store():
                pass  # opening the database refuses another currency or time zone

    settings = change_settings(shop.folder, changes, accept=accept)
    with shop.store() as store:
        content = (shop.folder / FILE).read_bytes()
        note_file(store, FILE, sha256(content).hexdigest(), action="change settings", settings=sorted(changes))
    return settings


def change_settings(
    shop: Path, changes: Mapping[str, Any], *, accept: Callable[[ShopSettings], None] = lambda _: None
) -> ShopSettings:
    """Write these settings into the shop's disco.yaml; null removes one. PlanError names every problem, and nothing is
    written then, nor where `accept` refuses the settings by an error."""
    for name in changes:
        if name not in CHANGEABLE:
            fix = "Whoever runs the service changes the others in disco.yaml."
            raise InputError("settings", found=f"the setting {name}", expected=", ".join(CHANGEABLE), fix=fix)
        if os.environ.get(f"DISCO_{name.upper()}"):
            raise StateError(f"The environment variable DISCO_{name.upper()} sets `{name}`", fix="Change it there.")
    with _ONE_AT_A_TIME, temporary_folder("settings") as scratch:
        path = shop / FILE
        text = path.read_text(encoding="utf-8-sig") if path.is_file() else ""
        for name, value in changes.items():
            text = _with_setting(text, name, value)
        (scratch / FILE).write_text(text, encoding="utf-8")
        try:
            settings = load_settings(scratch)
        except PlanError as error:
            renamed = [replace(one, file=one.file.replace(str(scratch / FILE), FILE)) for one in error.problems]
            raise PlanError("The settings cannot be used:", renamed) from None
        accept(settings)
        with written_whole(path) as partial:
            partial.write_text(text, encoding="utf-8")
    return settings


def _with_setting(text: str, name: str, value: Any) -> str:
    """The YAML text with another value of one top-level key; comments and other lines stay."""
    try:
        node, before = yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)
    except yaml.YAMLError:
        raise StateError(f"{FILE} cannot be read", fix="Whoever runs the service corrects it there.") from None
    if node is not None and not isinstance(node, yaml.MappingNode):
        raise InputError(FILE, found="no mapping", expected="lines of `name: value`")
    pairs = [] if node is None else list(node.value)
    found = next(((key, part) for key, part in pairs if key.value == name), None)
    line = "" if value is None else _line(name, value)
    if found is None:
        changed = text if not line else text + ("\n" if text and not text.endswith("\n") else "") + line
    else:
        start, end = found[0].start_mark.index, found[1].end_mark.index
        changed = text[:start] + line + text[_end_of(found[1], text, start, end) :]
    wanted = {key: part for key, part in (before or {}).items() if key != name}
    if value is not None:
        wanted[name] = value
    if not _says(changed, wanted):
        raise StateError(
            f"{FILE} is written in a form in which the service cannot change `{name}` alone",
            fix="Whoever runs the service changes it there, or writes it as lines of `name: value`.",
        )
    return changed


def _end_of(part: yaml.Node, text: str, start: int, end: int) -> int:
    """Where the lines of a value end that stands from `start`, with its key, to `end`."""
    is_block = getattr(part, "style", None) in ("|", ">") or not (isinstance(part, yaml.ScalarNode) or part.flow_style)
    if not is_block:  # a comment behind the value belongs to it
        stop = text.find("\n", end)
        return len(text) if stop < 0 else stop + 1
    kept = text[start:end].rstrip("\n").split("\n")  # comments between it and the next key belong to that key
    while len(kept) > 1 and (not kept[-1].strip() or kept[-1].startswith("#")):
        kept.pop()
    return start + len("\n".join(kept)) + 1


def _says(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        return (yaml.safe_load(text) or {}) == wanted
    except yaml.YAMLError:
        return False


def _line(name: str, value: Any) -> str:
    text = str(yaml.safe_dump({name: value}, sort_keys=False, allow_unicode=True, width=110))
    if _says(text, {name: value}):
        return text
    # some separators of lines are lost unless they are escaped
    return str(yaml.safe_dump({name: value}, sort_keys=False, allow_unicode=False, width=110))
