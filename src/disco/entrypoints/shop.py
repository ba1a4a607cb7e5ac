"""One place that turns a shop's settings into the things commands work with: store, tables, network, belief, plans."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from disco.entrypoints.config import FILE, EncodingSettings, Settings, load_settings
from disco.records.errors import InputError, StateError

if TYPE_CHECKING:
    from disco.adapters.engines import LocalEngine
    from disco.adapters.store import CampaignStore
    from disco.adapters.tables import FolderTables, SqlTables
    from disco.belief import Encoding
    from disco.campaign import Belief
    from disco.features import ContextNetwork
    from disco.records.ports import Store

Missing = Literal["refuse", "create", "scratch"]
_LEAST_SECRET_BYTES = 32
_SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Shop:
    """A folder with disco.yaml and what it names; paths in the settings are seen from this folder."""

    folder: Path
    settings: Settings

    @classmethod
    def open(cls, folder: Path, **flags: Any) -> "Shop":
        """The shop in that folder; `flags` override its settings, None was not given."""
        if not folder.is_dir():
            found = "a file" if folder.exists() else "no such folder"
            fix = "`disco init` makes one; --shop names it."
            raise InputError(f"shop {folder}", found=found, expected="a folder", fix=fix)
        return cls(folder, load_settings(folder, flags=flags))

    @property
    def engine(self) -> "LocalEngine":
        """What runs the heavy work, with the threads of the settings; DuckDB gets as many."""
        from disco.adapters.engines import open_engine

        return open_engine(self.settings.engine, threads=self.settings.threads)

    @property
    def plans(self) -> Path:
        """The folder of decided plans; made when the first one is kept."""
        return self.folder / self.settings.plans

    @property
    def is_new(self) -> bool:
        """It has settings and no decided plan, so a SQLite file that is not there was never made."""
        url = self.settings.database_place(self.folder)
        no_database = url.startswith(_SQLITE) and not Path(url.removeprefix(_SQLITE)).is_file()
        return (self.folder / FILE).is_file() and no_database and not any(self.plans.glob("*/plan.json"))

    @contextmanager
    def store(self, *, missing: Missing = "refuse") -> "Iterator[CampaignStore]":
        """The database of campaigns. Where its SQLite file is not there yet: refuse, create it, or use an empty one
        that goes away again (for dry runs)."""
        from disco.adapters.store import CampaignStore

        url = self.settings.database_place(self.folder)
        with ExitStack() as stack:
            file = Path(url.removeprefix(_SQLITE))
            if url.startswith(_SQLITE) and not file.is_file():
                if missing == "refuse":
                    raise StateError(
                        f"database {file}",
                        found="no such file",
                        expected="the campaigns of this shop",
                        fix="`disco plan` makes it; --shop names the folder of disco.yaml.",
                    )
                if missing == "scratch":
                    url = f"{_SQLITE}{stack.enter_context(TemporaryDirectory(prefix='disco-'))}/empty.db"
            store = CampaignStore(url)
            stack.callback(store.close)
            yield store

    def tables(self) -> "FolderTables | SqlTables":
        """The retailer's tables; a context manager."""
        from disco.adapters.tables import open_tables

        return open_tables(self.settings.data_place(self.folder), queries=self.settings.queries)

    def network(self) -> "ContextNetwork":
        """The context network. It needs orders, no campaigns, so it comes before the first plan."""
        from disco.features import ContextNetwork

        path = self.folder / self.settings.context
        if not path.is_file():
            raise InputError(
                f"context network {path}",
                found="no such file",
                expected="a trained network (the setting `context`)",
                fix=f"Run `disco train context --tables {self.settings.data_place(self.folder)} "
                f"--window-start YYYY-MM-DD -o {path}`.",
            )
        return ContextNetwork.load(path)

    def belief(self, store: "Store", *, network: str) -> "tuple[Belief, int | None]":
        """The belief that decides now, and its version (None: nothing was learned); for contexts of this network."""
        from disco.operations.versions import active_belief

        belief, version = active_belief(store, prior=self.prior())
        if version is not None and version.network != network:
            raise StateError(
                f"belief version {version.number}",
                found=f"learned with another context network than {self.settings.context}",
                expected="the network it was learned with",
                fix="Run `disco learn --rebuild`, or put the old network back.",
            )
        return belief, None if version is None else version.number

    def prior(self) -> "Belief":
        """The belief before any campaign."""
        from disco.belief import BasketModel, Engagement
        from disco.campaign import Belief

        model, engagement = self.settings.model, self.settings.engagement
        return Belief(
            basket=BasketModel(
                encoding=_encoding(model.encoding),
                depth_scale=model.depth_scale,
                forgetting=model.forgetting,
                monotone=model.monotone,
                reason="the settings of the shop",
            ),
            engagement=Engagement(
                prior_rate=engagement.prior_rate, prior_codes=engagement.prior_codes, override=engagement.override
            ),
        )


def code_secret() -> bytes | None:
    """The key of the codes from the environment, for shops that keep it outside the database; None: the store's own."""
    text = os.environ.get("DISCO_CODE_SECRET")
    if text is None:
        return None
    if len(text.encode()) < _LEAST_SECRET_BYTES:
        found, expected = f"{len(text.encode())} bytes", f"at least {_LEAST_SECRET_BYTES}, made at random"
        raise InputError("DISCO_CODE_SECRET", found=found, expected=expected, fix="Try `openssl rand -hex 32`.")
    return text.encode()


@dataclass(frozen=True, slots=True)
class WallClock:
    """The time it is, or, for a simulated shop, the time it is there."""

    fixed: datetime | None = None

    def now(self) -> datetime:
        return self.fixed if self.fixed is not None else datetime.now(UTC)


def _encoding(settings: EncodingSettings) -> "Encoding":
    from dataclasses import fields

    from disco.belief import DistanceToDepth, LinearDepth, OneHotDepth, RadialBasis, SmoothSpline

    kinds: dict[str, Any] = {
        kind.kind: kind for kind in (SmoothSpline, RadialBasis, LinearDepth, DistanceToDepth, OneHotDepth)
    }
    kind = kinds[settings.kind]
    given = settings.model_dump(exclude={"kind"}, exclude_none=True)
    known = [field.name for field in fields(kind) if field.init]
    for name in given:
        if name not in known:
            raise InputError(
                f"setting model.encoding.{name}",
                found=f"kind: {settings.kind}",
                expected=f"only {', '.join(known)}" if known else "nothing but the kind",
            )
    if settings.kind == "one_hot" and not given:
        raise InputError("setting model.encoding.depths", found="nothing", expected="the depths a one-hot model knows")
    encoding: Encoding = kind(**given)
    return encoding
