"""`disco.Client`: a shop behind `disco serve`, with the use cases' names, results and errors of `disco.Shop`.

Requests are repeated where a server was busy or out of reach: each write carries an Idempotency-Key, so it is done
once. Long work is a job; methods wait for its result unless they are told not to.

What is sent for a use case, and what comes back, is read from its declaration (`entrypoints/use_cases.py`). `_asks`
makes a method with the signature of the one of `Shop`. A method that takes more, such as `timeout`, is written out and
calls `_ask` or `_wait_for`. Lists in pages, files, and rows to send have methods of their own.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import wraps
from pathlib import Path
from secrets import SystemRandom
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast
from urllib.parse import quote
from uuid import uuid4

import httpx

from disco.adapters.files import read_yaml
from disco.entrypoints.python import Shop
from disco.entrypoints.use_cases import USE_CASES, ApiRoute, routed
from disco.records.errors import InputError, ServiceError, UnavailableError
from disco.records.files import written_whole
from disco.records.jobs import Draft, Job, JobPage, JobState
from disco.records.result import Result
from disco.web.problems import error_named, error_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from disco.office.audit.use_cases import AuditVerdict
    from disco.office.keys.use_cases import NewKey, RevokedKey
    from disco.operations.experiment import PowerResult
    from disco.operations.explain import Explanation
    from disco.operations.forget import Forgotten, PersonalData
    from disco.operations.late import PreparedArrivals
    from disco.operations.launch import Launched, Recalled
    from disco.operations.learn import Activated, Learned
    from disco.operations.learned import LearnedBelief
    from disco.operations.outcomes import Ingested
    from disco.operations.overview import CampaignList
    from disco.operations.plan import PlanResult, PlanVerdict, TablesVerdict
    from disco.operations.replay import PropensitiesResult, ReplayResult
    from disco.operations.results import AllResults, CampaignResults
    from disco.operations.review import PlanDifference, PlanEntry
    from disco.operations.training import ContextTrained
    from disco.operations.upkeep import CheckResult, HealthCheck
    from disco.operations.what_if import Frontier

_API = "/api/v1"
_PARQUET, _CSV = "application/vnd.apache.parquet", "text/csv"
_TRIES = 5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10.0
_LOOKS_S = (0.1, 2.0)  # between two looks at a job: at first, at last
_AGAIN = (429, 502, 503, 504)
_PAGE = 200
Kind = TypeVar("Kind", bound=Result)
Given = ParamSpec("Given")
Plan = str | Path | Mapping[str, Any]


def _asks(function: Callable[Concatenate[Shop, Given], Kind]) -> Callable[Concatenate[Client, Given], Kind]:
    """The use case behind the service, with the parameters and the words of the method of `Shop`."""

    def ask(self: Client, /, *args: Given.args, **given: Given.kwargs) -> Kind:
        return self._ask(function, *args, **given)

    return cast("Callable[Concatenate[Client, Given], Kind]", wraps(function)(ask))


class Client:
    """A shop behind a service.

    url: such as http://127.0.0.1:8080. key: as `disco keys create` printed it. timeout: seconds for one request; work
    that takes longer is a job. Also a context manager, which closes its connections.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"user-agent": "disco-client"} | ({} if key is None else {"authorization": f"Bearer {key}"})
        try:
            self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, transport=transport)
        except (httpx.InvalidURL, ValueError, TypeError):
            raise InputError("url", found=repr(url), expected="such as http://127.0.0.1:8080") from None
        if self._http.base_url.scheme not in ("http", "https"):
            raise InputError("url", found=repr(url), expected="such as http://127.0.0.1:8080")

    def __repr__(self) -> str:
        return f"Client({str(self._http.base_url)!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # ---- plans

    def plan(self, plan: Plan, *, dry_run: bool = False, timeout: float | None = None) -> PlanResult:
        """Decide a campaign; the decided plan is kept under its id. plan: a YAML or JSON file, or its content."""
        job = self._post("plans", _plan_form(plan), params={"dry_run": dry_run})["job"]
        return _result(Shop.plan, self.wait(job, timeout=timeout).result or {})

    def plans(self) -> tuple[PlanEntry, ...]:
        """The plans that are kept, the newest first."""
        from disco.operations.review import PlanEntry

        return tuple(PlanEntry.from_dict(one) for one in self._items("plans"))

    plan_show = _asks(Shop.plan_show)

    def plan_diff(self, first: str, second: str) -> PlanDifference:
        """What changes from one plan to another. Each is an id or a campaign."""
        return _result(Shop.plan_diff, self._get(f"plans/{_part(first)}/diff/{_part(second)}"))

    plan_copy = _asks(Shop.plan_copy)

    approve = _asks(Shop.approve)

    def frontier(
        self,
        plan: Plan,
        *,
        revenue_weights: Sequence[float] | None = None,
        budgets: Sequence[float] | None = None,
        cap: float | None = None,
        timeout: float | None = None,
    ) -> Frontier:
        """What a plan could reach: revenue against markdown."""
        form = _plan_form(plan)
        return self._wait_for(timeout, Shop.frontier, form, revenue_weights=revenue_weights, budgets=budgets, cap=cap)

    # ---- drafts

    def drafts(self) -> tuple[Draft, ...]:
        """Plans that are being written."""
        return tuple(Draft.from_dict(one) for one in self._items("drafts"))

    def draft(self, name: str) -> Draft:
        """One of them."""
        return Draft.from_dict(self._get(f"drafts/{_part(name)}"))

    def put_draft(self, name: str, plan: Mapping[str, Any], *, revision: int | None = None) -> Draft:
        """Write a draft. revision: the one that was seen, where the draft exists already."""
        return Draft.from_dict(self._json("PUT", f"drafts/{_part(name)}", dict(plan), headers=_match(revision)))

    def delete_draft(self, name: str, *, revision: int) -> None:
        """Delete a draft. revision: the one that was seen."""
        self._json("DELETE", f"drafts/{_part(name)}", headers=_match(revision))

    # ---- a campaign's life

    def launch(self, plan_id: str, *, campaign: str | None = None, dry_run: bool = False) -> Launched:
        """Make a plan real. campaign: its name, where it is known; it is looked up otherwise."""
        name = campaign or self.plan_show(plan_id).campaign
        path, body = f"campaigns/{_part(name)}/launch", {"plan_id": plan_id}
        return _result(Shop.launch, self._post(path, body, params={"dry_run": dry_run}))

    def export(self, campaign: str, file: str | Path | None = None) -> pa.Table:
        """The codes to send; with `file` (.parquet or .csv) also written there."""
        import pyarrow.parquet as pq

        path = f"campaigns/{_part(campaign)}/export"
        place = None if file is None else Path(file)
        if place is not None and place.suffix.lower() not in (".parquet", ".csv"):
            raise InputError(str(place), found=place.suffix or "no ending", expected=".parquet or .csv")
        table = self._send("GET", path, headers={"accept": _PARQUET}).content
        if place is not None:
            is_csv = place.suffix.lower() == ".csv"
            _write(place, self._send("GET", path, headers={"accept": _CSV}).content if is_csv else table)
        return pq.read_table(io.BytesIO(table))

    def late(
        self, campaign: str, customer: str | int, *, as_of: date | None = None, dry_run: bool = False
    ) -> Mapping[str, Any]:
        """Decide about a customer who arrives after the launch: customer_id, depth, code."""
        body = {"customer_id": customer}
        return self._post(
            f"campaigns/{_part(campaign)}/late", body, params=_given({"as_of": as_of, "dry_run": dry_run})
        )

    def late_arrivals(self, campaign: str) -> tuple[Mapping[str, Any], ...]:
        """Everybody who arrived after the launch."""
        return tuple(self._items(f"campaigns/{_part(campaign)}/late"))

    def ingest(
        self,
        campaign: str,
        outcomes: str | Path | pa.Table | pd.DataFrame | Sequence[Mapping[str, Any]],
        *,
        source: str | None = None,
        dry_run: bool = False,
    ) -> Ingested:
        """Import purchases, exactly once. outcomes: a Parquet or CSV file, a table, a data frame, or rows."""
        content, kind, name = _outcomes(outcomes)
        params = _given({"source": source or name, "dry_run": dry_run})
        path = f"campaigns/{_part(campaign)}/outcomes"
        return _result(
            Shop.ingest, self._send("POST", path, content=content, headers={"content-type": kind}, params=params).json()
        )

    def quarantine(self, batch_id: str, file: str | Path) -> Path:
        """Write the rows of a batch that are not applied to a CSV file, each with its reason."""
        return _write(file, self._send("GET", f"batches/{_part(batch_id)}/quarantine").content)

    revert = _asks(Shop.revert)

    def learn(
        self,
        *campaigns: str,
        as_of: date | None = None,
        rebuild: bool = False,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Learned:
        """Make a new version of the model from the outcomes of these campaigns and of all learned before."""
        body = {"campaigns": list(campaigns) or None, "as_of": as_of, "rebuild": rebuild or None, "dry_run": dry_run}
        return _result(Shop.learn, self._job_done("learn", body, timeout))

    def activate(self, version: int, *, dry_run: bool = False, timeout: float | None = None) -> Activated:
        """Go back (or forward) to this version of the model."""
        return _result(Shop.activate, self._job_done("learn", {"activate": version, "dry_run": dry_run}, timeout))

    def results(self, campaign: str, *, as_of: date | None = None) -> CampaignResults:
        """Read out a campaign."""
        return self._ask(Shop.results, campaign, as_of=as_of)

    def all_results(self, *, as_of: date | None = None) -> AllResults:
        """Read out all campaigns."""
        from disco.operations.results import AllResults

        return AllResults.from_dict(self._get("results", params=_given({"as_of": as_of})))

    def report(self, campaign: str | None, file: str | Path, *, as_of: date | None = None) -> Path:
        """Write the results of a campaign, or of all of them, to a self-contained page (.html)."""
        params = _given({"as_of": as_of})
        if campaign is None:
            return _write(file, self._send("GET", "report", params=params).content)
        return _write(file, self._send("GET", f"campaigns/{_part(campaign)}/report", params=params).content)

    def explain(self, campaign: str, customer: str | int) -> Explanation:
        """Why a customer got this depth or none."""
        return _result(Shop.explain, self._get(f"campaigns/{_part(campaign)}/customers/{_part(str(customer))}"))

    def campaigns(self, campaign: str | None = None) -> CampaignList:
        """The launched campaigns, or one of them, with every batch of outcomes."""
        if campaign is not None:
            found: list[Any] = [self._get(f"campaigns/{_part(campaign)}")]
            active = self._get("campaigns", params={"limit": 1})["active_version"]
        else:
            pages = list(self._pages("campaigns"))
            found, active = [one for page in pages for one in page["items"]], pages[0]["active_version"]
        return _result(Shop.campaigns, {"campaigns": found, "active_version": active})

    pause = _asks(Shop.pause)

    resume = _asks(Shop.resume)

    close_campaign = _asks(Shop.close)

    def recall(
        self,
        campaign: str,
        file: str | Path | None = None,
        *,
        as_of: date | None = None,
        dry_run: bool = False,
    ) -> Recalled:
        """Make the codes that were not used invalid; with `file` (.parquet or .csv) their list is written there."""
        path, params = f"campaigns/{_part(campaign)}/recall", _given({"as_of": as_of, "dry_run": dry_run})
        found = _result(Shop.recall, self._post(path, params=params))
        if file is not None:
            kind = _CSV if Path(file).suffix.lower() == ".csv" else _PARQUET
            _write(file, self._send("POST", path, params=params, headers={"accept": kind}).content)
        return found

    def propensities(self, campaign: str, *, draws: int = 200, timeout: float | None = None) -> PropensitiesResult:
        """Add to every decision how likely it was, so that other policies can be evaluated on this campaign later."""
        return self._wait_for(timeout, Shop.propensities, campaign, draws=draws)

    def contexts(self, campaign: str | None = None, *, timeout: float | None = None) -> PreparedArrivals:
        """Prepare customers who may arrive after a launch; None: of all campaigns that run."""
        return self._wait_for(timeout, Shop.contexts, campaign)

    # ---- model and figures

    def belief(self, version: int | None = None) -> LearnedBelief:
        """What a version of the model has learned, per depth; None: the active one."""
        return _result(Shop.belief, self._get(f"beliefs/{'active' if version is None else version}"))

    demand = _asks(Shop.demand)
    added = _asks(Shop.added)
    favoured = _asks(Shop.favoured)
    release_holdout = _asks(Shop.release_holdout)

    def power(self, *, baseline: float, sd: float, **options: float) -> PowerResult:
        """How large an A/B test has to be: with `uplift`, `customers` or both; see `POST power`."""
        from disco.operations.experiment import PowerResult

        return PowerResult.from_dict(self._post("power", {"baseline": baseline, "sd": sd, **options}))

    def ab_test(
        self,
        arm: Sequence[str],
        depth: Sequence[float | None],
        full_price: Sequence[float | None],
        **options: Any,
    ) -> Mapping[str, Any]:
        """Read out an A/B test, one entry per customer assigned; see `POST ab`."""
        return self._post("ab", {"arm": list(arm), "depth": list(depth), "full_price": list(full_price), **options})

    def allocate(
        self, values: Mapping[str, Sequence[Any]], caps: Mapping[str, int], **options: Any
    ) -> Mapping[str, Any]:
        """The solver alone: `customer_id` and one list per depth in, depth and value per customer out."""
        return self._post("allocate", {"values": values, "caps": caps, **options})

    def replay(
        self, log: str, *, context: Sequence[str], policies: Sequence[str], timeout: float | None = None, **options: Any
    ) -> ReplayResult:
        """What policies would have earned. log: a file within the shop's folder; see `POST replay`."""
        body = {"log": log, "context": list(context), "policies": list(policies), **options}
        return _result(Shop.replay, self._job_done("replay", body, timeout))

    # ---- tables and checks

    def tables(self) -> tuple[Mapping[str, Any], ...]:
        """The tables of the shop, with their columns."""
        return tuple(self._items("tables"))

    def put_table(self, name: str, table: str | Path | pa.Table | pd.DataFrame) -> Mapping[str, Any]:
        """Replace a table, once it has no problem. table: a Parquet or CSV file, an Arrow table or a data frame."""
        content, kind, _ = _outcomes(table)
        sent = self._send("PUT", f"tables/{_part(name)}", content=content, headers={"content-type": kind})
        found: Mapping[str, Any] = sent.json()
        return found

    def name_columns(self, name: str, columns: Mapping[str, str]) -> Mapping[str, Any]:
        """What the columns of a table are called: our name → yours."""
        return self._json("PUT", f"tables/{_part(name)}/columns", dict(columns))

    def features(
        self, as_of: date, file: str | Path | None = None, *, catalogue: Mapping[str, Any] | None = None
    ) -> pa.Table:
        """The features of every customer as of a day; with `file` (.parquet) also written there."""
        import pyarrow.parquet as pq

        content = self._send("POST", "features", json=_given({"as_of": as_of, "catalogue": catalogue})).content
        if file is not None:
            _write(file, content)
        return pq.read_table(io.BytesIO(content))

    def validate(self, *, as_of: date | None = None, timeout: float | None = None) -> TablesVerdict:
        """Every problem of the shop's tables."""
        return self._wait_for(timeout, Shop.validate, as_of=as_of)

    def validate_plan(self, plan: Plan, *, timeout: float | None = None) -> PlanVerdict:
        """Whether a plan can be decided."""
        return _result(Shop.validate_plan, self._job_done("validate", {"plan": _plan_form(plan)}, timeout))

    def train(self, *, window_start: date, timeout: float | None = None, **options: Any) -> ContextTrained:
        """Train the context network on the shop's tables; see `POST train`."""
        body = {"window_start": window_start.isoformat(), **options}
        return _result(Shop.train, self._job_done("train", body, timeout))

    def check(
        self, campaign: str | None = None, *, as_of: date | None = None, timeout: float | None = None
    ) -> CheckResult:
        """Whether decisions may be built on the shop's customers, or on those of a campaign."""
        return self._wait_for(timeout, Shop.check, campaign, as_of=as_of)

    def doctor(self, *, repair: bool = False, timeout: float | None = None) -> HealthCheck:
        """Check installation, settings, files and database."""
        return self._wait_for(timeout, Shop.doctor, repair=repair)

    # ---- upkeep

    def backup(self, file: str | Path, *, damaged: bool = False) -> Path:
        """Write the shop to one file, which `disco restore` makes a shop of again."""
        with (
            written_whole(Path(file)) as partial,
            self._http.stream("GET", f"{_API}/backup", params={"damaged": damaged}) as answer,
        ):
            if not answer.is_success:
                answer.read()
                raise error_of(_problem(answer))
            with partial.open("wb") as opened:
                for part in answer.iter_bytes():
                    opened.write(part)
        return Path(file)

    def forget(self, customers: Sequence[str | int], *, dry_run: bool = False) -> Forgotten:
        """Forget customers, everywhere. This cannot be undone."""
        return self._ask(Shop.forget, list(customers), dry_run=dry_run)

    def access(self, customer: str | int, file: str | Path | None = None) -> PersonalData:
        """Everything that is kept about a customer, which is what `forget` removes; with `file` also written there as
        JSON."""
        kept = self._ask(Shop.access, customer)
        if file is not None:
            kept = replace(kept, file=str(file))
            _write(file, (kept.to_json(indent=2) + "\n").encode())
        return kept

    prune = _asks(Shop.prune)

    # ---- jobs

    def job(self, job: str | Job) -> Job:
        """A job with its result."""
        return Job.from_dict(self._get(f"jobs/{_part(_id(job))}"))

    def jobs(self, *, state: str | None = None, limit: int = 50, cursor: str | None = None) -> JobPage:
        """A page of jobs, the newest first."""
        return JobPage.from_dict(self._get("jobs", params=_given({"state": state, "limit": limit, "cursor": cursor})))

    def cancel(self, job: str | Job) -> Job:
        """Stop a job."""
        return Job.from_dict(self._post(f"jobs/{_part(_id(job))}/cancel"))

    def wait(self, job: str | Job, *, timeout: float | None = None) -> Job:
        """Wait until a job has ended; the error that ended it is raised. timeout: seconds; None: without an end."""
        began, pause = time.monotonic(), _LOOKS_S[0]
        while True:
            found = self.job(job)
            if found.state is JobState.DONE:
                return found
            if found.is_final:
                problem = found.problem
                if problem is None:
                    raise ServiceError(f"Job {found.id} was cancelled", status=409, kind="request")
                raise error_named(problem.error, problem.message, problem.problems)
            if timeout is not None and time.monotonic() - began > timeout:
                raise UnavailableError(
                    f"Job {found.id} has not ended after {timeout:g} s", fix="It goes on; `wait` for it again."
                )
            time.sleep(pause)
            pause = min(1.5 * pause, _LOOKS_S[1])

    # ---- people, keys, settings

    def create_key(self, *, name: str, role: str, expires_days: int | None = None) -> NewKey:
        """Make an API key; it is shown once."""
        return _result(
            Shop.create_key, self._post("keys", _given({"name": name, "role": role, "expires_days": expires_days}))
        )

    def keys(self) -> tuple[Mapping[str, Any], ...]:
        """All keys, without their secrets."""
        return tuple(self._items("keys"))

    def revoke_key(self, key_id: str) -> RevokedKey:
        """Refuse a key from now on."""
        return _result(Shop.revoke_key, self._json("DELETE", f"keys/{_part(key_id)}"))

    def people(self) -> Mapping[str, Any]:
        """Everybody who can sign in (`items`), and open invitations."""
        return self._get("people")

    def invite(self, *, name: str, role: str, email: str | None = None) -> Mapping[str, Any]:
        """Invite somebody; `link` is where they choose a password, once."""
        return self._post("people", _given({"name": name, "role": role, "email": email}))

    def change_person(self, name: str, *, role: str | None = None, disabled: bool | None = None) -> Mapping[str, Any]:
        """Another role, or no sign-in any more."""
        return self._json("PATCH", f"people/{_part(name)}", _given({"role": role, "disabled": disabled}))

    def audit(self, *, after: int | None = None, limit: int = 100) -> Mapping[str, Any]:
        """Who wrote what, the newest last: `items`, and `next` for `after` of the next page."""
        return self._get("audit", params=_given({"cursor": after, "limit": limit}))

    def verify_audit(self, *, contains: str | None = None) -> AuditVerdict:
        """Whether the journal is what was written; `contains`: the hash of an entry that it must have."""
        return _result(Shop.verify_audit, self._get("audit/verify", params=_given({"contains": contains})))

    def settings(self, **changes: Any) -> Mapping[str, Any]:
        """The settings of the shop; with names and values, these are changed first."""
        return self._json("PATCH", "settings", changes) if changes else self._get("settings")

    # ---- requests

    def _ask(
        self, function: Callable[Concatenate[Shop, Given], Kind], *args: Given.args, **given: Given.kwargs
    ) -> Kind:
        """The result of a use case that the service answers at once."""
        case, route = routed(function)
        return cast(Kind, case.kind.from_dict(self._asked(route, case.arguments(*args, **given))))

    def _wait_for(
        self,
        timeout: float | None,
        function: Callable[Concatenate[Shop, Given], Kind],
        *args: Given.args,
        **given: Given.kwargs,
    ) -> Kind:
        """The result of a use case that is the work of a job."""
        case, route = routed(function)
        job = self._asked(route, case.arguments(*args, **given))["job"]
        return cast(Kind, case.kind.from_dict(self.wait(job, timeout=timeout).result or {}))

    def _asked(self, route: ApiRoute, arguments: Mapping[str, Any]) -> dict[str, Any]:
        given = list(_given(arguments).items())
        count = len(route.in_path)
        parts = {name: _part(str(value)) for name, (_, value) in zip(route.in_path, given[:count], strict=True)}
        params = {name: value for name, value in given[count:] if name in route.takes}
        body = {name: value for name, value in given[count:] if name not in route.takes}
        return self._json(route.method, route.path.format(**parts)[1:], body or None, params=params)

    def _job_done(self, path: str, body: Mapping[str, Any], timeout: float | None) -> Mapping[str, Any]:
        job = self._post(path, _given(body))["job"]
        return self.wait(job, timeout=timeout).result or {}

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        cursor = None
        while True:
            page = self._get(path, params=_given({"limit": _PAGE, "cursor": cursor}))
            yield page
            cursor = page["next"]
            if cursor is None:
                return

    def _items(self, path: str) -> Iterator[Any]:
        if path == "tables":
            yield from self._get(path)["items"]
            return
        for page in self._pages(path):
            yield from page["items"]

    def _get(self, path: str, *, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = self._send("GET", path, params=params).json()
        return found

    def _post(self, path: str, body: Any = None, *, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._json("POST", path, body, params=params)

    def _json(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        found: dict[str, Any] = self._send(method, path, json=body, params=params, headers=headers).json()
        return found

    def _send(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """One request, repeated while the service is busy or out of reach; its problem is raised as our error."""
        own = dict(headers or {}) | ({} if method == "GET" else {"idempotency-key": uuid4().hex})
        sent = _given({**(params or {})})
        for number in range(_TRIES):
            last = number == _TRIES - 1
            try:
                answer = self._http.request(
                    method, f"{_API}/{path}", json=_sendable(json), content=content, params=sent, headers=own
                )
            except httpx.TransportError as error:
                if last:
                    raise UnavailableError(
                        f"The service at {self._http.base_url} does not answer ({type(error).__name__})",
                        fix="See whether `disco serve` runs there, and try again.",
                    ) from error
                time.sleep(_pause(number))
                continue
            if answer.is_success:
                return answer
            refused = error_of(_problem(answer))
            in_progress = answer.status_code == 409 and "reply-in-progress" in answer.text
            if last or not (answer.status_code in _AGAIN or in_progress):
                raise refused
            time.sleep(max(_pause(number), float(answer.headers.get("retry-after", "0") or 0)))
        raise AssertionError("the last try returns or raises")


def _result(function: Callable[..., Kind], answer: Mapping[str, Any]) -> Kind:
    """What a method of `Shop` returns, from its JSON form."""
    kind = next(case.kind for case in USE_CASES if case.function is function)
    return cast(Kind, kind.from_dict(answer))


def _write(file: str | Path, content: bytes) -> Path:
    with written_whole(Path(file)) as partial:
        partial.write_bytes(content)
    return Path(file)


def _pause(number: int) -> float:
    """Seconds before the next try: doubled each time, and not the same for everybody."""
    spread = 0.5 + SystemRandom().random()
    return float(min(_FIRST_PAUSE_S * 2**number, _LONGEST_PAUSE_S) * spread)


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        found = None
    if isinstance(found, dict) and "detail" in found:
        return found
    return {"status": answer.status_code, "detail": f"The server answered {answer.status_code} and no problem"}


def _part(text: str) -> str:
    """A name as one part of a path."""
    return quote(text, safe="")


def _id(job: str | Job) -> str:
    return job.id if isinstance(job, Job) else job


def _match(revision: int | None) -> dict[str, str]:
    return {} if revision is None else {"if-match": f'"{revision}"'}


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was not given; days and truths as text."""
    return {name: _sendable(value) for name, value in values.items() if value is not None}


def _sendable(value: Any) -> Any:
    """Days as text, also inside lists and mappings; depths as keys become labels."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): _sendable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_sendable(part) for part in value]
    return value


def _plan_form(plan: Plan) -> dict[str, Any]:
    content = plan if isinstance(plan, Mapping) else read_yaml(Path(plan))
    if not isinstance(content, Mapping):
        raise InputError("plan", found=f"a {type(content).__name__}", expected="keys and values, such as {name: value}")
    form: dict[str, Any] = _sendable(content)
    return form


def _outcomes(given: Any) -> tuple[bytes, str, str | None]:
    """The bytes of a file, a table or rows, their media type, and the name of the file."""
    if isinstance(given, str | Path):
        path = Path(given)
        if not path.is_file():
            raise InputError(str(path), found="no such file", expected="a Parquet or CSV file")
        return path.read_bytes(), _CSV if path.suffix.lower() == ".csv" else _PARQUET, path.name
    if isinstance(given, list | tuple):
        from json import dumps

        return dumps(_sendable(given), allow_nan=False).encode(), "application/json", None
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not isinstance(given, pa.Table):
        if not (hasattr(given, "columns") and hasattr(given, "dtypes")):
            found, expected = f"a {type(given).__name__}", "a file, an Arrow table, a data frame or a list of rows"
            raise InputError("rows", found=found, expected=expected)
        given = pa.Table.from_pandas(given, preserve_index=False)
    sink = io.BytesIO()
    pq.write_table(given, sink)
    return sink.getvalue(), _PARQUET, None
