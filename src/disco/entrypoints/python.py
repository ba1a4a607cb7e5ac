"""`disco.Shop`: a shop's settings turned into store, tables, network and clock, and a campaign's life on them.

Each method calls one use case of `disco.operations` and returns its result; the command line renders the same results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from disco.adapters.config import (
    FILE,
    ShopSettings,
    check_code_secret,
    from_environment,
    settings_of_tables,
)
from disco.adapters.shop import ShopFolder, WallClock
from disco.records.arguments import kind_of
from disco.records.errors import DiscoError, InputError, ReportError
from disco.records.frames import as_arrow

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from disco.adapters.tables import FetchedTables, FolderTables
    from disco.features import ContextNetwork
    from disco.office.approvals.use_cases import Approved
    from disco.office.audit.use_cases import AuditPage, AuditVerdict
    from disco.office.keys.use_cases import Keys, NewKey, RevokedKey
    from disco.operations.added import Added, ReleasedHoldout
    from disco.operations.approvals import PlanApproval
    from disco.operations.backup import BackedUp, Restored
    from disco.operations.demand import Demand
    from disco.operations.explain import Explanation
    from disco.operations.export import Exported
    from disco.operations.export_table import TableExported
    from disco.operations.favoured import Favoured
    from disco.operations.forget import Forgotten, PersonalData, Pruned
    from disco.operations.late import LateArrivals, LateDecision, LateDesk, PreparedArrivals
    from disco.operations.launch import CampaignState, Launched, Recalled
    from disco.operations.learn import Activated, Learned
    from disco.operations.learned import LearnedBelief
    from disco.operations.networks import NetworkComparison
    from disco.operations.outcomes import Ingested, Quarantine, Reverted
    from disco.operations.overview import CampaignList
    from disco.operations.plan import PlanResult, PlanVerdict, TablesVerdict
    from disco.operations.predictive import Predictive
    from disco.operations.replay import PropensitiesResult, ReplayResult
    from disco.operations.results import AllResults, CampaignResults
    from disco.operations.review import PlanCopy, PlanDifference, PlanReview
    from disco.operations.training import ContextTrained
    from disco.operations.upkeep import CheckResult, DatabaseUpgrade, HealthCheck
    from disco.operations.what_if import Frontier
    from disco.records.chunks import Report
    from disco.records.maturity import Maturity
    from disco.records.people import Role
    from disco.records.plan import Plan


@dataclass(frozen=True, slots=True, repr=False)
class Shop(ShopFolder):
    """A folder with disco.yaml, and a campaign's life: plan, launch, export, ingest, learn, results, explain.

    Make one with `Shop.open(folder)`. Every method returns a result with `as_dict()` (its JSON form, docs/json.md) and,
    where it is a table, `to_pandas()` and `to_arrow()`.
    """

    @classmethod
    def create(cls, folder: str | Path, tables: Mapping[str, Any], **settings: Any) -> Shop:
        """A new shop in this folder, with these tables.

        tables: data frames by name. Other names than those of tables are files that `lines` or `queries` reads:
        `tables={"sales": frame}, lines={"table": "sales.parquet", "order_id": …}`. settings: those of disco.yaml, such
        as `currency="EUR"`. Where a table has a problem, nothing is written.
        """
        from disco.entrypoints.new_shop import create_with_tables

        create_with_tables(Path(folder), tables, settings)
        return cls.open(folder)

    # ---- a campaign's life

    def plan(
        self,
        plan: str | Path | Mapping[str, Any] | Plan,
        *,
        dry_run: bool = False,
        report: Report | None = None,
    ) -> PlanResult:
        """Decide a campaign: who would get which code, what that is expected to bring, and what each limit costs.

        plan: a YAML or JSON file, its content, or a plan that was read. The decided plan is kept under its id, and
        `launch` makes it real; a dry run keeps nothing. report: is told (done, total, stage) now and then.
        """
        from disco.operations.approvals import tell_of_waiting
        from disco.operations.plan import make_plan

        content = self.read_plan(plan)
        with self.site(missing="scratch" if dry_run else "create", keep=not dry_run) as site:
            made = make_plan(site, content, dry_run=dry_run, report=report)
            if not dry_run:
                tell_of_waiting(site.store, made.plan_id, rule=self.settings.approval, now=self.clock.now())
            return made

    def plan_show(self, plan_id: str, *, by: Sequence[str] = ()) -> PlanReview:
        """A kept plan by depth, group, history and spend, with 90% intervals.

        plan_id: its id, the beginning of it, or a campaign. by: also by these columns of the plan's customers table.
        """
        from disco.operations.review import review_plan

        with self.site(builds=False) as site:
            return review_plan(site, plan_id, by=tuple(by))

    def plan_diff(self, first: str | Path, second: str | Path) -> PlanDifference:
        """What changes from one plan to another: settings, and who gets what. Each is an id, a campaign, or a file."""
        from disco.operations.review import compare_plans, find_plan

        is_file = [is_plan_file(given) for given in (first, second)]
        with self.store(missing="scratch" if any(is_file) else "refuse") as store:
            here = replace(self, held_store=store)  # one store: its secret draws a lasting holdout in both
            return compare_plans(
                *(
                    here.plan(given, dry_run=True).planned if file else find_plan(store, str(given))
                    for given, file in zip((first, second), is_file, strict=True)
                )
            )

    def plan_copy(self, campaign: str) -> PlanCopy:
        """The plan of an earlier campaign as YAML, to be changed into the next one."""
        from disco.operations.review import copy_plan

        with self.store() as store:
            return copy_plan(store, campaign)

    def launch(self, plan_id: str, *, dry_run: bool = False) -> Launched:
        """Make a plan real: decisions and one single-use code per decision are kept, all of them or none.

        plan_id: as `plan` returned it, its beginning, or the name of a campaign with one plan.
        """
        from disco.operations.launch import launch_plan

        with self.site(keep=not dry_run) as site:
            approval = self.settings.approval
            return launch_plan(site, plan_id, approval=approval, secret=code_secret(), dry_run=dry_run)

    def approve(self, plan_id: str) -> Approved:
        """Approve a plan that somebody else made, by its id or four or more characters of its beginning."""
        from disco.office.approvals.use_cases import approve_plan

        with self.store() as store:
            return approve_plan(store, plan_id, self.clock)

    def approval(self, plan_id: str) -> PlanApproval:
        """Who made and who approved a plan, and whether a launch needs approval."""
        from disco.operations.approvals import plan_approval

        with self.store() as store:
            return plan_approval(store, plan_id, rule=self.settings.approval)

    def export(self, campaign: str, file: str | Path | None = None) -> Exported:
        """The codes to send; with `file` (.parquet or .csv) also written there, with a manifest beside it."""
        from disco.entrypoints.outputs import check_outputs
        from disco.operations.export import check_kind, export

        place = None if file is None else Path(file)
        if place is not None:
            check_kind(place)
        check_outputs(place, shop=self.folder)
        with self.store() as store:
            return export(store, campaign, file=place, data=self.data)

    def export_to(self, campaign: str, place: str, *, kind: str = "codes", as_of: date | None = None) -> TableExported:
        """Let a table elsewhere hold the codes, decisions or results of a campaign, exactly once.

        place: URL#TABLE of a database, a DuckDB file or a Delta lake, as docs/warehouses.md says.
        kind: codes, decisions or results; as_of: the day of the read-out of results.
        """
        from disco.adapters.tables.warehouse import Export, export_to
        from disco.operations.export_table import TableExported, read_kind, rows_of_table

        asked, day = read_kind(kind), as_of or self.clock.today()
        with self.store() as store:
            rows, key = rows_of_table(store, self.data, campaign, asked, as_of=day)
        own = self.settings.database_place(self.folder)
        table, changed = export_to(place, Export(rows, campaign, key), own_database=own)
        return TableExported(campaign=campaign, kind=asked, table=table, rows=rows.num_rows, changed=changed)

    def ingest(
        self,
        campaign: str,
        outcomes: str | Path | pa.Table | pd.DataFrame,
        *,
        quarantine: str | Path | None = None,
        source: str | None = None,
        dry_run: bool = False,
    ) -> Ingested:
        """Import purchases, exactly once: a file may come twice, in parts, or in any order.

        outcomes: a Parquet or CSV file, an Arrow table or a data frame with the columns of the outcomes table.
        quarantine: CSV file for the rows that were not applied, each with its reason. If it cannot be written, the
        outcomes are kept all the same: the ReportError has the result, and `Shop.quarantine` writes the file later.
        source: where they come from, for the list of batches; default: the name of the file.
        """
        from disco.entrypoints.outputs import check_outputs
        from disco.operations.guardrails import watch
        from disco.operations.outcomes import ingest, write_quarantine

        aside = None if quarantine is None else Path(quarantine)
        check_outputs(aside, inputs=(outcomes,) if isinstance(outcomes, str | Path) else (), shop=self.folder)
        rows, name = _outcomes(outcomes, self.settings, named=source)
        with self.store() as store:
            done = ingest(store, campaign, rows, source=name, clock=self.clock, data=self.data, dry_run=dry_run)
            if not dry_run:
                done = replace(done, warnings=(*done.warnings, *watch(store, campaign, clock=self.clock)))
            if aside is not None and not dry_run:
                try:
                    write_quarantine(store, done.batch_id, file=aside)
                except (DiscoError, OSError) as error:
                    words = f"Batch {done.batch_id} of {campaign} is ingested. Only its quarantine could not be written"
                    fix = f"`disco quarantine {done.batch_id} -o FILE` writes it."
                    raise ReportError(f"{words} ({error})", fix=fix, result=done) from error
        return done

    def quarantine(self, batch_id: str, file: str | Path) -> Quarantine:
        """Write the rows of a batch that are not applied to a CSV file, each with its reason."""
        from disco.entrypoints.outputs import check_outputs
        from disco.operations.outcomes import write_quarantine

        check_outputs(Path(file), shop=self.folder)
        with self.store() as store:
            return write_quarantine(store, batch_id, file=Path(file))

    def revert(self, batch_id: str, *, dry_run: bool = False) -> Reverted:
        """Take a batch of outcomes out again; afterwards everything is as if the file had never come."""
        from disco.operations.outcomes import revert

        with self.store() as store:
            return revert(store, batch_id, clock=self.clock, dry_run=dry_run)

    def learn(self, *campaigns: str | Sequence[str], as_of: date | None = None, dry_run: bool = False) -> Learned:
        """Make a new version of the model from the outcomes of these campaigns and of all learned before.

        campaigns: their names, one by one or in a list; none: those learned before.
        as_of: codes that had expired by this day count for engagement; default: today.
        """
        from disco.operations.learn import learn_campaigns

        day = as_of or self.clock.today()
        _ = self.cluster_engine  # sums of campaigns are kept, so there is no work for it, but it has to be there
        with self.store() as store:
            return learn_campaigns(
                store, _names(campaigns), prior=self.prior(), as_of=day, clock=self.clock, dry_run=dry_run
            )

    def rebuild(self, *, as_of: date | None = None, dry_run: bool = False) -> Learned:
        """After the context network was trained anew: embed all customers again and learn all campaigns again."""
        from disco.operations.learn import rebuild_for_network

        day = as_of or self.clock.today()
        with self.site() as site:
            return rebuild_for_network(site, as_of=day, cluster=self.cluster_engine, dry_run=dry_run)

    def activate(self, version: int, *, dry_run: bool = False) -> Activated:
        """Go back (or forward) to this version of the model."""
        from disco.operations.learn import activate

        with self.store() as store:
            return activate(store, version, dry_run=dry_run)

    @overload
    def results(self, campaign: str, *, as_of: date | None = None) -> CampaignResults: ...

    @overload
    def results(self, campaign: None = None, *, as_of: date | None = None) -> AllResults: ...

    def results(self, campaign: str | None = None, *, as_of: date | None = None) -> CampaignResults | AllResults:
        """Read out a campaign, or all of them: what each group bought, and the A/B test of decided codes."""
        from disco.operations.results import all_results, campaign_results

        day = as_of or self.clock.today()
        with self.store() as store:
            if campaign is None:
                return all_results(store, self.data, as_of=day)
            return campaign_results(store, self.data, campaign, as_of=day)

    def added(self, *, first: date | None = None, last: date | None = None) -> Added:
        """What codes added: revenue, markdown and margin of everybody, against the people of the lasting holdout.

        first, last: the days that count; None: all since the holdout began. The margin is the setting `margin`.
        """
        from disco.operations.added import codes_added

        margin, today = self.settings.margin, self.clock.today()
        with self.store() as store:
            return codes_added(store, self.data, today=today, margin=margin, first=first, last=last)

    def favoured(self, name: str, *, by: str) -> Favoured:
        """Who gets which depths, codes and markdown, by the values of a column of the customers table.

        name: the id of a plan, or a launched campaign, for which what was bought so far is shown, too.
        """
        from disco.operations.favoured import who_is_favoured

        with self.store() as store:
            return who_is_favoured(store, self.data, name, by=by)

    def release_holdout(self, reason: str, *, dry_run: bool = False) -> ReleasedHoldout:
        """Let the people of the lasting holdout have codes; the next campaign with one draws other people."""
        from disco.operations.added import release_holdout

        with self.store() as store:
            return release_holdout(store, reason=reason, today=self.clock.today(), dry_run=dry_run)

    def explain(self, campaign: str, customer: str | int | None = None) -> Explanation:
        """Why a customer got this depth or none, and what the runner-up was worth; None: of an example.

        An InputError says why somebody was not part of the campaign.
        """
        from disco.operations.explain import explain

        with self.store() as store:
            return explain(store, campaign, customer, prior=self.prior(), data=self.data)

    def campaigns(self, campaign: str | None = None) -> CampaignList:
        """The launched campaigns, or one of them, with every batch of outcomes."""
        from disco.operations.overview import list_campaigns

        with self.store() as store:
            return list_campaigns(store, campaign, today=self.clock.today())

    def belief(self, version: int | None = None) -> LearnedBelief:
        """What a version of the model has learned, per depth; None: the active one."""
        from disco.operations.learned import learned_belief

        with self.store() as store:
            return learned_belief(store, version)

    def demand(self, version: int | None = None) -> Demand:
        """Demand over depths by a version of the model, with what was seen; None: by the active one."""
        from disco.operations.demand import demand

        with self.store() as store:
            return demand(store, version)

    def frontier(
        self,
        plan: str | Path | Mapping[str, Any] | Plan,
        *,
        revenue_weights: Sequence[float] | None = None,
        budgets: Sequence[float] | None = None,
        cap: float | None = None,
    ) -> Frontier:
        """What a plan could reach: revenue against markdown over revenue weights and budgets.

        cap: a depth of the plan; its cap is varied, too.
        """
        from disco.operations.what_if import plan_frontier

        content = self.read_plan(plan)
        with self.site() as site:
            return plan_frontier(site, content, revenue_weights=revenue_weights, budgets=budgets, cap=cap)

    def late(
        self, campaign: str, customers: Sequence[str | int], *, as_of: date | None = None, dry_run: bool = False
    ) -> LateArrivals:
        """Decide about customers who arrive after the launch, from what the campaign holds in reserve.

        as_of: the day they arrive; default: today.
        """
        from disco.operations.late import late_arrivals

        asked = list(dict.fromkeys(map(str, customers)))
        with self.site(keep=not dry_run) as site:
            if as_of is not None:
                site = replace(site, clock=WallClock(self.settings.locale.moment(as_of)))
            return late_arrivals(site, campaign, asked, secret=code_secret(), dry_run=dry_run)

    def late_look_up(
        self, campaign: str, customers: Sequence[str], *, desk: LateDesk | None = None
    ) -> tuple[dict[str, LateDecision | DiscoError], LateDesk]:
        """By customer: the decision that was made before, where there is one; for servers.

        desk: what the last call about this campaign returned; None at first.
        """
        from disco.operations.late import look_up

        with self.store() as store:
            return look_up(store, campaign, customers, desk=desk, clock=self.clock)

    def late_decide(
        self, customers: Sequence[str], *, desk: LateDesk
    ) -> tuple[dict[str, LateDecision | DiscoError], LateDesk]:
        """By customer: the decision, or why there is none, from the contexts that were prepared; for servers.

        desk: what `late_look_up`, or the last call, returned.
        """
        from disco.operations.late import decide_new

        with self.store() as store:
            return decide_new(
                store,
                self.data,
                customers,
                desk=desk,
                prior=self.prior(),
                clock=self.clock,
                secret=code_secret(),
            )

    def contexts(self, campaign: str | None = None) -> PreparedArrivals:
        """Prepare customers who may arrive after a launch, so that a service decides about them within milliseconds.

        campaign: None prepares all that run and hold codes in reserve.
        """
        from disco.operations.late import prepare_arrivals

        with self.site() as site:
            return prepare_arrivals(site, campaign)

    def replay(
        self,
        log: str | Path,
        *,
        context: Sequence[str],
        policies: Sequence[str],
        caps: Mapping[str, int | str] | None = None,
        batch: int | None = None,
        warm: str | Path | None = None,
        passes: int = 8,
        repeats: int = 20,
        seed: int = 0,
        revenue_weight: float | None = None,
        strata: Sequence[str] = (),
        propensity: Literal["column", "observed"] = "column",
        skew: Literal["resample", "weight"] = "resample",
        encoding: str = "radial_basis",
        depth_scale: float = 1.0,
        forgetting: float = 1.0,
        learn_engagement: bool = False,
        engagement_score: str | None = None,
        report: Report | None = None,
        warn: Callable[[Sequence[str]], None] | None = None,
    ) -> ReplayResult:
        """What policies would have earned on the log of a campaign whose depths were assigned at random.

        log: a Parquet file; `disco replay --help` says what it holds, and what each option is. caps: most customers per
        depth and batch, such as {"0.1": "25%", "0.2": 500}. report: is told (done, total, stage) after every pass.
        warn: receives sentences about how random the depths look.
        """
        from disco.operations.replay import replay_files

        return replay_files(
            Path(log),
            policies,
            context=context,
            caps=caps or {},
            batch=batch,
            warm=None if warm is None else Path(warm),
            passes=passes,
            repeats=repeats,
            seed=seed,
            revenue_weight=revenue_weight,
            strata=strata,
            observed=propensity == "observed",
            skew=skew,
            encoding=encoding,
            depth_scale=depth_scale,
            forgetting=forgetting,
            learn_engagement=learn_engagement,
            engagement_score=engagement_score,
            report=report,
            warn=warn,
            engine=self.engine,
        )

    def propensities(self, campaign: str, *, draws: int = 200) -> PropensitiesResult:
        """Add to every decision how likely it was, so that other policies can be evaluated on this campaign later."""
        from disco.operations.replay import add_propensities

        with self.store() as store:
            return add_propensities(store, campaign, prior=self.prior(), draws=draws, engine=self.engine)

    def pause(self, campaign: str) -> CampaignState:
        """No code for anybody who arrives now; outcomes of codes already sent still count."""
        from disco.operations.launch import pause

        with self.store() as store:
            return pause(store, campaign, clock=self.clock)

    def resume(self, campaign: str) -> CampaignState:
        """End a pause."""
        from disco.operations.launch import resume

        with self.store() as store:
            return resume(store, campaign)

    def close(self, campaign: str) -> CampaignState:
        """End a campaign for good: no codes, and outcomes that arrive from now on do not count (expired)."""
        from disco.operations.launch import close

        with self.store() as store:
            return close(store, campaign)

    def recall(
        self,
        campaign: str,
        file: str | Path | None = None,
        *,
        as_of: date | None = None,
        dry_run: bool = False,
    ) -> Recalled:
        """Make the codes that were not used invalid; with `file` (.parquet or .csv) their list is written there.

        Purchases ordered before the recall count, later ones are set aside, and no code counts as unused. as_of: the
        recall was at the beginning of this day; default: now. If the file cannot be written, the campaign is recalled
        all the same: the ReportError has the result, and another call writes the file.
        """
        from disco.entrypoints.outputs import check_outputs
        from disco.operations.export import check_kind
        from disco.operations.launch import recall

        place = None if file is None else Path(file)
        if place is not None:
            check_kind(place)
        check_outputs(place, shop=self.folder)
        with self.store() as store:
            at = None if as_of is None else store.locale.moment(as_of)
            return recall(store, campaign, clock=self.clock, at=at, file=place, dry_run=dry_run)

    # ---- the context network

    def maturity(self, fixed_days: int | None = None) -> Maturity:
        """When the codes of the table `codes` have matured, for training.

        fixed_days: so many days after their sending; default: the setting `maturity_days`.
        """
        from disco.operations.training import maturity_of
        from disco.records.maturity import Maturity

        days = self.settings.maturity_days if fixed_days is None else fixed_days
        if days is not None:
            return Maturity(days)
        with self.store(missing="scratch") as store:
            return maturity_of(store)

    def train(
        self,
        *,
        window_start: date | None = None,
        months: int = 3,
        maturity_days: int | None = None,
        catalogue: Mapping[str, Any] | None = None,
        only_better: bool = False,
        report: Report | None = None,
        **parameters: Any,
    ) -> ContextTrained:
        """Train the shop's context network on its own tables; the plans that follow use it.

        window_start: first day of the orders to learn from; None: so that the window and the month after, by which the
        network is tested, end with the last order. months: length of the window. maturity_days: a code counts as
        unused so many days after its sending; default: the setting of that name. catalogue: features to drop and to add
        (docs/features.md). only_better: the network in use stays where the new one would not have been better on past
        campaigns. report: is told (done, total, stage). parameters: of `ContextNetwork`, such as `heads="level"`.
        """
        from disco.features import ContextNetwork
        from disco.features.builder import day_after_last_order
        from disco.features.catalogue import read_selection
        from disco.features.training_set import months_later
        from disco.operations.training import train_context

        if window_start is None:
            with self.data.tables() as tables:
                window_start = months_later(day_after_last_order(tables), -months - 1)
        return train_context(
            ContextNetwork(**{"habits": self.settings.habits, **parameters}),
            lambda _: self.data.tables(),
            out=self.folder / self.settings.context,
            tables=self.settings.data_place(self.folder),
            window_start=window_start,
            months=months,
            catalogue=None if catalogue is None else read_selection(catalogue, where="catalogue"),
            maturity=self.maturity(maturity_days),
            own=self.own_codes(),
            threads=self.engine.threads,
            engine=self.engine,
            cluster=self.cluster_engine,
            compare=self.against_network_in_use,
            only_better=only_better,
            protected=self.settings.protected,
            progress=None if report is None else lambda epoch, most: report(epoch, most, "epochs"),
        )

    def against_network_in_use(
        self, network: ContextNetwork, trained_until: date | None = None
    ) -> NetworkComparison | None:
        """A network and the shop's own on its past campaigns; None where there is nothing to compare.

        trained_until: the end of the window that it was trained on.
        """
        from disco.features import ContextNetwork
        from disco.operations.networks import compare_networks

        file = self.folder / self.settings.context
        if not file.is_file():
            return None
        with self.store(missing="scratch") as store:
            return compare_networks(
                store,
                ContextNetwork.load(file),
                network,
                prior=self.prior(),
                as_of=self.clock.today(),
                trained_until=trained_until,
                engine=self.engine,
            )

    def own_codes(self) -> pa.Table:
        """The matured codes of the shop's own campaigns, used or not: they teach engagement without a table `codes`."""
        from disco.operations.training import own_codes

        with self.store(missing="scratch") as store:
            return own_codes(store, today=self.clock.today())

    # ---- what is kept about customers, and may go

    def access(self, customer: str | int, file: str | Path | None = None) -> PersonalData:
        """Everything that is kept about a customer, which is what `forget` removes; with `file` also written there as
        JSON."""
        from disco.entrypoints.outputs import check_outputs
        from disco.operations.forget import access

        place = None if file is None else Path(file)
        check_outputs(place, shop=self.folder)
        with self.store() as store:
            return access(store, str(customer), tables=self.data.place, file=place)

    def forget(self, customers: Sequence[str | int], *, dry_run: bool = False) -> Forgotten:
        """Forget customers: another name in the place of their ids, no features and no context, everywhere at once.

        Their purchases still count, under that name. This cannot be undone. docs/privacy.md says what stays.
        """
        from disco.operations.forget import forget

        with self.store() as store:
            return forget(
                store,
                list(map(str, customers)),
                clock=self.clock,
                cache=self.cache(),
                folders=self.files.folders,
                tables=self.data.place,
                dry_run=dry_run,
            )

    def prune(self, *, days: int, features: bool = False, dry_run: bool = False) -> Pruned:
        """Remove what is older than so many days and needed by nothing: raw text of rows set aside, plans, caches.

        features: also retained features of campaigns that ended before; `learn --rebuild` then refuses them.
        """
        from disco.operations.forget import prune

        if days < 1:
            raise InputError("days", found=days, expected="at least 1")
        with self.store() as store:
            return prune(
                store,
                days=days,
                clock=self.clock,
                cache=self.cache(),
                folders=self.files.folders,
                features=features,
                dry_run=dry_run,
            )

    # ---- is everything in order

    def check(
        self,
        campaign: str | None = None,
        *,
        as_of: date | None = None,
        network: ContextNetwork | None = None,
    ) -> CheckResult:
        """Whether decisions may be built on the shop's customers, or on those of a campaign, with its network.

        as_of: of the features (default: the day after the last order), or of the campaign's read-out (default: today).
        network: to check with instead of the shop's own.
        """
        from disco.operations.upkeep import check_launched, check_shop

        trained = self.data.network() if network is None else network
        if campaign is None:
            with self.store(missing="scratch") as store:
                today = self.clock.today()
                cache = self.cache()
                return check_shop(self.data, cache=cache, as_of=as_of, network=trained, store=store, today=today)
        day = as_of or self.clock.today()
        with self.store() as store:
            return check_launched(store, self.data, campaign, as_of=day, network=trained)

    def predictive(self, campaign: str | None = None) -> Predictive:
        """What past plans forecast of each customer, against what happened; of one campaign, or of the latest."""
        from disco.operations.predictive import predictive

        with self.store() as store:
            return predictive(store, prior=self.prior(), today=self.clock.today(), campaign=campaign)

    def validate(self, *, as_of: date | None = None) -> TablesVerdict:
        """Every problem of the shop's tables; as_of: the last day that dates may name (default: today)."""
        return validate_tables_at(self.data.place, settings=self.settings, as_of=as_of or self.clock.today())

    def validate_plan(self, plan: str | Path | Mapping[str, Any] | Plan) -> PlanVerdict:
        """Whether a plan can be decided on the shop's tables."""
        from disco.operations.plan import validate_plan

        return validate_plan(self.data, self.read_plan(plan))

    def doctor(self, *, repair: bool = False) -> HealthCheck:
        """Check installation, settings, files, tables, network, database, and all that is kept of campaigns.

        repair: first build again what ledger and plans can give; the result says what was changed.
        """
        from disco.operations.upkeep import DatabaseHealth, health_check
        from disco.store.health import restore_schema, vitals

        url = self.database_url
        return health_check(
            self.files,
            settings_file=self.folder / FILE,
            data=self.data,
            database=None
            if self.is_new
            else DatabaseHealth(
                store=self.store,
                vitals=lambda: vitals(url, artefacts=self.artefacts),
                restore_schema=lambda: restore_schema(url),
            ),
            repair=repair,
        )

    def create_key(self, *, name: str, role: Role | str, expires: timedelta | None = None) -> NewKey:
        """Make an API key of the service; it is shown once.

        role: viewer, planner, approver or admin. expires: after how long it is refused; None: never.
        """
        from disco.office.keys.use_cases import create_key

        with self.store(missing="create") as store:
            return create_key(store, name=name, role=role, expires=expires, clock=self.clock)

    def list_keys(self) -> Keys:
        """All API keys, without their secrets."""
        from disco.office.keys.use_cases import list_keys

        with self.store() as store:
            return list_keys(store, self.clock)

    def revoke_key(self, key_id: str) -> RevokedKey:
        """Refuse an API key from now on; by its id or four or more characters of its beginning."""
        from disco.office.keys.use_cases import revoke_key

        with self.store() as store:
            return revoke_key(store, key_id, self.clock)

    def audit(self, *, after: int | None = None, limit: int = 50) -> AuditPage:
        """A part of the audit journal: entries after a number, or the last ones."""
        from disco.office.audit.use_cases import list_journal

        with self.store() as store:
            return list_journal(store, after=after, limit=limit)

    def verify_audit(self, *, contains: str | None = None) -> AuditVerdict:
        """Whether the audit journal is what was written; `contains`: the hash of an entry that it must have."""
        from disco.office.audit.use_cases import verify_journal

        with self.store() as store:
            return verify_journal(store, contains=contains)

    def upgrade(self) -> DatabaseUpgrade:
        """Bring the database to what this program knows: all changes in one transaction, or none."""
        from disco.operations.upkeep import DatabaseUpgrade
        from disco.store.store import is_empty, open_database, shown, upgrade

        database = open_database(self.database_url)
        try:
            if is_empty(database):
                self._refuse_orphans()
            before, after = upgrade(database)
        finally:
            database.engine.dispose()
        return DatabaseUpgrade(database=shown(database.engine.url), before=before, after=after)

    def backup(self, file: str | Path, *, damaged: bool = False) -> BackedUp:
        """Write database, artefacts, settings and context network to one file; `disco restore` makes the shop again.

        damaged: also where rows were changed by another program, which is refused otherwise.
        """
        from disco.entrypoints.backups import back_up

        return back_up(self, Path(file), damaged=damaged)

    @staticmethod
    def restore(file: str | Path, folder: str | Path) -> Restored:
        """Make the shop of a backup again, in a folder and a database without campaigns."""
        from disco.entrypoints.backups import restore

        return restore(Path(file), Path(folder))


def validate_plan_at(path: Path, *, shop: Path) -> PlanVerdict:
    """The verdict on a plan file; what it names is looked at in the shop it lies in, or else in `shop`."""
    from disco.operations.plan import validate_plan, validate_plan_alone

    folder = path.parent if shop == Path() and not (shop / FILE).is_file() else shop
    opened = Shop.open(folder)
    plan = opened.read_plan(path)
    place = opened.settings.data_place(folder)
    if "://" not in place and not Path(place).is_dir():
        return validate_plan_alone(plan)
    return validate_plan(opened.data, plan)


def is_plan_file(given: str | Path) -> bool:
    """Whether an argument names a plan file and not a kept plan."""
    return Path(given).suffix.lower() in (".yaml", ".yml", ".json")


def doctor(folder: str | Path = ".", *, repair: bool = False) -> HealthCheck:
    """`Shop.doctor` of this folder, also where its settings cannot be read."""
    from disco.operations.upkeep import unreadable_settings

    try:
        shop = Shop.open(folder)
    except DiscoError as error:
        return unreadable_settings(Path(folder) / FILE, error)
    return shop.doctor(repair=repair)


def validate_tables_at(place: str, *, settings: ShopSettings, as_of: date) -> TablesVerdict:
    """Every problem of the tables in a folder or behind a database URL; settings: how they are written."""
    from disco.adapters.tables import open_tables, validate_tables
    from disco.operations.plan import TablesVerdict

    with open_tables(place, queries=settings.queries, written=settings.written) as opened:
        report = validate_tables(opened, as_of=as_of)
        notes = opened.notes()
    return TablesVerdict(
        clean=not report.problems,
        as_of=as_of,
        rows=report.rows,
        count=len(report.problems),
        problems=tuple(report.problems),
        notes=notes,
        warnings=report.warnings,
    )


def tables_opener(shop: Path) -> Callable[[str], FolderTables | FetchedTables]:
    """Opens tables at a place, written as the settings of the shop that they lie in say, or else of `shop`."""
    from disco.adapters.tables import open_tables

    def opened(place: str) -> FolderTables | FetchedTables:
        settings = settings_of_tables(place, shop=shop)
        return open_tables(place, queries=settings.queries, written=settings.written)

    return opened


def code_secret() -> bytes | None:
    """The key of the codes from the environment, for shops that keep it outside the database; None: the store's own."""
    text = from_environment("DISCO_CODE_SECRET", os.environ)
    if text is None:
        return None
    check_code_secret(text)
    return text.encode()


def _names(campaigns: Sequence[str | Sequence[str]]) -> list[str]:
    """The names of campaigns, given one by one or in lists."""
    names: list[str] = []
    for given in campaigns:
        names += [given] if isinstance(given, str) or not isinstance(given, Sequence) else given
    for name in names:
        if not isinstance(name, str):
            raise InputError("campaigns", found=kind_of(name), expected="names of campaigns, such as 'spring'")
    return names


def _outcomes(
    outcomes: str | Path | pa.Table | pd.DataFrame, settings: ShopSettings, *, named: str | None
) -> tuple[pa.Table, str]:
    """The rows, and where they came from. named: what to call the source instead."""
    from disco.adapters.tables.single_files import read_outcomes_file

    if isinstance(outcomes, str | Path):
        name = named or str(outcomes)
        return read_outcomes_file(Path(outcomes), written=settings.written, file=name), name
    rows = as_arrow(outcomes, where="outcomes", besides="a file, ")
    return rows, named or ("a table" if rows is outcomes else "a data frame")
