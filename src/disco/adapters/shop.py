"""A shop's folder with disco.yaml turned into store, tables, network, clock and engines: what all use cases work on.

`disco.Shop` adds the use cases. What stands below them, such as a route of the service, needs no more than this.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from disco.adapters.config import FILE, ShopSettings, load_settings
from disco.adapters.files import read_yaml
from disco.records.arguments import kind_of
from disco.records.chunks import read_threads
from disco.records.errors import DiscoError, InputError, StateError
from disco.records.files import private_folder, temporary_folder, unfinished_file
from disco.records.locale import FIRST_YEAR, LAST_YEAR, POUNDS_UTC, Locale
from disco.records.ports import TableEngine

if TYPE_CHECKING:
    from typing import Self

    from disco.adapters.conditions import Turn
    from disco.adapters.engines import LocalEngine, SparkEngine
    from disco.adapters.shop_data import FolderShopData
    from disco.campaign import Belief
    from disco.operations.contexts import FeatureCache
    from disco.operations.site import ShopFiles, Site
    from disco.records.people import Actor
    from disco.records.plan import Plan
    from disco.store import Store


Missing = Literal["refuse", "create", "scratch"]
_SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True)
class WallClock:
    """The time it is, or, for a simulated shop, the time it is there."""

    fixed: datetime | None = None
    locale: Locale = POUNDS_UTC
    behind: timedelta = timedelta(0)
    """How far the time of a simulated shop is behind; it passes there as it does here."""

    def now(self) -> datetime:
        """StateError at the ends of the calendar, where no expiry and no next day could be computed."""
        moment = self.fixed if self.fixed is not None else datetime.now(UTC) - self.behind
        if not FIRST_YEAR <= moment.year <= LAST_YEAR:
            raise StateError(
                f"The clock shows {moment:%Y-%m-%d}, and only days from {FIRST_YEAR} to {LAST_YEAR} can be counted",
                fix="Correct the clock of this machine.",
            )
        return moment

    def today(self) -> date:
        """The day it is in the shop."""
        return self.locale.day_of(self.now())

    @classmethod
    def of(cls, settings: ShopSettings, *, fixed: datetime | None = None) -> "WallClock":
        """The clock of a shop with these settings."""
        return cls(fixed, settings.locale, timedelta(days=settings.simulated_days_behind or 0))


@dataclass(frozen=True, slots=True)
class ShopFolder:
    """A folder with disco.yaml, and what its settings name. Make one with `open`."""

    folder: Path
    """Paths in the settings and in plans are seen from here."""
    settings: ShopSettings
    clock: WallClock = WallClock()
    held_store: "Store | None" = field(default=None, repr=False, compare=False)
    """The store that every method uses, for a shop that is held open; None: each call opens and closes its own."""
    watch: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    """Called between chunks of heavy work; what it raises ends the work, as for a job that was cancelled."""
    turn: "Turn | None" = field(default=None, repr=False, compare=False)
    """What the work holds while others wait; left while a plan's condition is slow."""
    cluster: "SparkEngine | None" = field(default=None, repr=False, compare=False)
    """An engine that was handed in."""

    @classmethod
    def open(cls, folder: str | Path = ".", *, now: datetime | None = None, **settings: Any) -> "Self":
        """The shop in this folder.

        now: for a simulated shop, the time it is there (with a time zone). settings: override those of disco.yaml,
        such as `threads=2`; None was not given. `engine` is a name or a `disco.SparkEngine`, which holds the session of
        a notebook.
        """
        place = Path(folder)
        if not place.is_dir():
            found = "a file" if place.exists() else "no such folder"
            fix = "`disco init` creates one; --shop names it."
            raise InputError(f"shop {place}", found=found, expected="a folder", fix=fix)
        if now is not None and now.tzinfo is None:
            raise InputError("now", found=f"{now} without a time zone", expected="a time with one, such as UTC")
        cluster = None
        if not isinstance(settings.get("engine"), str | None):
            cluster = settings.pop("engine")
            if not isinstance(cluster, TableEngine):
                raise InputError("engine", found=kind_of(cluster), expected="'local', 'spark' or a disco.SparkEngine")
        read = load_settings(place, flags=settings)
        if settings.get("master") is not None and read.engine == "local":
            fix = 'Only the engine spark has a master: add engine="spark".'
            raise InputError("master", found=repr(settings["master"]), expected="none", fix=fix)
        return cls(place, read, WallClock.of(read, fixed=now), cluster=cluster)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r})"

    @contextmanager
    def held(self) -> "Iterator[Self]":
        """The shop with its database open until the end of the block, for servers; made where it has no tables yet."""
        with self.store(missing="create") as store:
            yield replace(self, held_store=store)

    def by(self, actor: "Actor") -> "Self":
        """The same shop, held open, whose writes carry this name in the journal."""
        if self.held_store is None:
            raise StateError("Only a shop that is held open can be used in another name", fix="Use `Shop.held()`.")
        return replace(self, held_store=self.held_store.by(actor))

    def refuse_unready(self) -> None:
        """Raise where the database cannot be used by this program, or the folder of artefacts cannot be written."""
        with self.store() as store:
            store.refuse_unready()
        private_folder(self.artefacts)
        with unfinished_file(self.artefacts):
            pass

    # ---- what it is made of

    @property
    def artefacts(self) -> Path:
        """The folder of large tables; made when the first one is written."""
        return self.folder / self.settings.artefacts

    @property
    def files(self) -> "ShopFiles":
        """Where its own files lie."""
        from disco.operations.site import ShopFiles

        url = self.database_url
        file = Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None
        return ShopFiles(folder=self.folder, artefacts=self.artefacts, database=file)

    @property
    def database_url(self) -> str:
        """Of the database of campaigns."""
        return self.settings.database_place(self.folder)

    @property
    def data(self) -> "FolderShopData":
        """The retailer's tables, the files that plans name, and the context network."""
        from disco.adapters.conditions import Conditions
        from disco.adapters.shop_data import FolderShopData

        caller = "" if self.held_store is None else self.held_store.actor.name
        return FolderShopData(
            folder=self.folder,
            place=self.settings.data_place(self.folder),
            queries=self.settings.queries,
            written=self.settings.written,
            network_file=self.folder / self.settings.context,
            protected=self.settings.protected,
            private=tuple(self._private()),
            conditions=Conditions(caller=caller, watch=self.watch, turn=self.turn),
        )

    def _private(self) -> "Iterator[Path]":
        """What no plan may name, in whichever folder it lies."""
        yield from (self.folder / FILE, self.folder / self.settings.context, self.artefacts)
        if (file := self.files.database) is not None:
            yield from (Path(f"{file}{ending}") for ending in ("", "-journal", "-wal", "-shm"))
        if self.settings.oidc is not None and self.settings.oidc.client_secret_file is not None:
            yield self.folder / self.settings.oidc.client_secret_file

    def cache(self, *, keep: bool = True, builds: bool = True) -> "FeatureCache":
        """Features that were built before; with `keep`, those that have to be built are kept.

        builds: whether some may have to be built, perhaps by a cluster, which is then opened.
        """
        from disco.operations.contexts import FeatureCache

        return FeatureCache(
            folder=self.artefacts / "features",
            keep=keep,
            threads=self.engine.threads,
            engine=(self.cluster_engine if builds else None) or self.engine,
        )

    @property
    def engine(self) -> "LocalEngine":
        """What runs the work on this machine, with the threads of the settings; DuckDB gets as many."""
        from disco.adapters.engines import LocalEngine

        return LocalEngine(read_threads(self.settings.threads), self.watch)

    @property
    def cluster_engine(self) -> "SparkEngine | None":
        """What holds and computes large tables, where the settings name the engine spark; None: this machine."""
        if self.cluster is not None or self.settings.engine == "local":
            return self.cluster
        from disco.adapters.engines import SparkEngine

        return SparkEngine(master=self.settings.master, watch=self.watch)

    @property
    def is_new(self) -> bool:
        """It has settings and an empty database, and nothing of a campaign lies around."""
        from disco.store import Store

        if not (self.folder / FILE).is_file() or self._orphans():
            return False
        try:
            store = Store.existing(self.database_url, self.artefacts, locale=self.settings.locale)
        except DiscoError:  # whoever opens it says why it cannot be used
            return False
        if store is not None:
            store.close()
        return store is None

    def _orphans(self) -> list[Path]:
        """Files of plans, by which a shop with an empty database is known to have lost it."""
        return list(self.artefacts.glob("*.arrow"))

    def _refuse_orphans(self) -> None:
        """A new database would have another secret, and campaigns that are out could be launched again."""
        if orphans := self._orphans():
            place = self._shown_database()
            raise StateError(
                f"The database {place} is empty, but {self.artefacts} holds files of plans ({orphans[0].name}, …), so "
                "the database was lost or another one is named",
                fix="Restore the backup with `disco restore`, or correct `database_url`. For a new shop, let the "
                "setting `artefacts` name another folder.",
            )

    def _shown_database(self) -> str:
        """Its URL without a password."""
        from disco.store.store import open_database, shown

        return shown(open_database(self.database_url).engine.url)

    @contextmanager
    def store(self, *, missing: Missing = "refuse") -> "Iterator[Store]":
        """The database of campaigns. Where it has no tables yet: refuse, create them, or use an empty one that goes
        away again (for dry runs). Never created where files of plans lie around."""
        from disco.store import Store

        if self.held_store is not None:
            yield self.held_store
            return
        url = self.database_url
        with ExitStack() as stack:
            artefacts, locale = self.artefacts, self.settings.locale
            store = Store.existing(url, artefacts, locale=locale, clock=self.clock)
            if store is None:
                self._refuse_orphans()
                if missing == "refuse":
                    raise StateError(
                        f"This shop has no campaigns yet: the database {self._shown_database()} is empty",
                        fix="`disco plan` creates it; --shop names the folder of disco.yaml.",
                    )
                if missing == "scratch":
                    artefacts = stack.enter_context(temporary_folder("scratch"))
                    url = f"{_SQLITE}{artefacts}/empty.db"
                store = Store(url, artefacts, locale=locale, clock=self.clock)
            stack.callback(store.close)
            yield store

    @contextmanager
    def site(self, *, missing: Missing = "refuse", keep: bool = True, builds: bool = True) -> "Iterator[Site]":
        """What use cases work on, with the database open until the end of the block.

        missing: as for `store`. keep, builds: as for `cache`; a use case that reads plans alone builds no features.
        """
        from disco.operations.site import Site

        cache, data, prior = self.cache(keep=keep, builds=builds), self.data, self.prior()
        with self.store(missing=missing) as store:
            yield Site(
                store=store,
                data=data,
                clock=self.clock,
                prior=prior,
                cache=cache,
                engine=self.engine,
                rules=self.settings.rules,
            )

    def prior(self) -> "Belief":
        """The belief before any campaign."""
        return self.settings.prior()

    def read_plan(self, plan: "str | Path | Mapping[str, Any] | Plan") -> "Plan":
        """A plan from its file, from its content, or as it is; every problem at once in a PlanError."""
        from disco.records.plan import Plan, read_plan

        if isinstance(plan, Plan):
            return plan
        content, file = (plan, "plan") if isinstance(plan, Mapping) else (read_yaml(Path(plan)), str(plan))
        return read_plan(
            content,
            file=file,
            currency=self.settings.locale.currency,
            lasting_holdout=self.settings.holdout.lasting,
            exploration=self.settings.exploration,
            guardrails=self.settings.guardrails,
            protected=self.settings.protected,
        )
