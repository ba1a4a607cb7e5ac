"""Errors as RFC 9457 problems, and problems as errors again: one table for the service and for its client.

A problem has `type` (a URN that never changes), `title`, `status`, `detail` (the sentence that the command line
prints), `instance` (the id of the request) and, where single fields are known to be wrong, `errors`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from disco.records import errors
from disco.records.errors import (
    CertificateError,
    DefectError,
    DiscoError,
    InfeasibleError,
    Problem,
    ServiceError,
    TableError,
)

MEDIA_TYPE = "application/problem+json"
_URN = "urn:disco:problem:"
_MOST_PROBLEMS = 100  # in one reply; the sentence has as many

# class → HTTP status, the last part of its URN, and its title; a subclass that is not listed is as its parent
_KINDS: dict[type[DiscoError], tuple[int, str, str]] = {
    errors.InputError: (422, "input", "Something in the request cannot be used"),
    errors.UsageError: (400, "usage", "The request is wrong"),
    errors.TableError: (422, "table", "A table has problems"),
    errors.PlanError: (422, "plan", "A plan or settings have problems"),
    errors.LimitError: (422, "limit", "Limits cannot be read"),
    errors.FileFormatError: (422, "file-format", "A file is damaged or of another kind"),
    errors.ForbiddenAddressError: (422, "forbidden-address", "A webhook leads to an address that is not allowed"),
    errors.SignatureError: (400, "signature", "A delivery is altered, too old or of somebody else"),
    errors.SchemaMismatchError: (409, "schema-mismatch", "A context, model or table belongs to another schema"),
    errors.IllConditionedError: (422, "ill-conditioned", "The model cannot be computed accurately"),
    errors.InfeasibleError: (422, "infeasible", "Limits contradict each other"),
    errors.StateError: (409, "state", "The present state does not allow this"),
    errors.ApprovalError: (409, "approval", "A second person has to approve the plan"),
    errors.ConflictError: (409, "conflict", "Another request changed the same rows at this moment"),
    errors.NotFoundError: (404, "not-found", "Nothing is kept under this name"),
    errors.ReplyConflictError: (409, "reply-conflict", "The idempotency key was used for another request"),
    errors.ReplyInProgressError: (409, "reply-in-progress", "The request with this idempotency key is in progress"),
    errors.RevisionError: (412, "revision", "Somebody else has changed it since it was read"),
    errors.RevisionMissingError: (428, "revision-missing", "A change has to say which revision it changes"),
    errors.SealError: (409, "seal", "Rows were changed by another program"),
    errors.UnavailableError: (503, "unavailable", "The database cannot be reached at the moment"),
    errors.UpgradeError: (503, "upgrade", "The database is at another revision than this program"),
    errors.AuthenticationError: (401, "authentication", "A valid key or session is needed"),
    errors.RoleError: (403, "role", "The role does not allow this"),
    errors.IdentityProviderError: (503, "identity-provider", "The identity provider cannot be used at the moment"),
    errors.DeliveryError: (502, "delivery", "A webhook's receiver did not answer with success"),
    errors.MissingPartError: (503, "missing-part", "A part of the installation is absent"),
    errors.ReportError: (500, "report", "The work is done, but its report could not be written"),
    DefectError: (500, "defect", "A defect of disco"),
    CertificateError: (500, "certificate", "A result failed its own check"),
}
_CLASSES = {name: kind for kind, (_, name, _) in _KINDS.items()}
# what the service itself refuses, by the last part of the URN
_TITLES = {
    "cross-site": "The request did not come from a page of this service",
    "sign-in": "The sign-in cannot be completed",
    "unknown-route": "There is no such route",
    "unknown-method": "The route does not have this method",
    "content-type": "The body has a type that the route does not read",
    "not-acceptable": "The route has no form of the reply that was asked for",
    "too-large": "The body is too large",
    "header": "The header is too large",
    "timeout": "The request did not arrive in time",
    "connections": "Too many connections",
    "body": "The body cannot be read",
    "request": "The request has problems",
    "rate": "Too many requests",
    "busy": "The service is busy",
    "host": "The service does not answer under this name",
}
_FALLBACK = (400, "refused", "The request was refused")


def status_of(error: DiscoError) -> int:
    """The HTTP status of the reply."""
    return error.status if isinstance(error, ServiceError) else _kind(error)[0]


def problem_of(error: DiscoError, *, instance: str) -> dict[str, Any]:
    """The problem of an error. instance: the id of the request."""
    if isinstance(error, ServiceError):
        name = error.kind
        title = _TITLES[name]
    else:
        _, name, title = _kind(error)
    found: dict[str, Any] = {
        "type": f"{_URN}{name}",
        "title": title,
        "status": status_of(error),
        "detail": str(error),
        "instance": f"urn:disco:request:{instance}",
    }
    problems = getattr(error, "problems", ())
    if problems:
        found["errors"] = [_field(problem) for problem in problems[:_MOST_PROBLEMS]]
    elif error.expected is not None:
        one = {"field": error.what, "found": str(error.found), "expected": str(error.expected), "fix": error.fix or ""}
        found["errors"] = [one]
    if isinstance(error, InfeasibleError):
        found["conflicts"] = list(error.conflicts)
    return found


def error_of(problem: dict[str, Any]) -> DiscoError:
    """The error that a problem was made of, with the same class and the same sentence."""
    name = str(problem.get("type", "")).removeprefix(_URN)
    detail, status = str(problem.get("detail", "The service refused the request.")), int(problem.get("status", 500))
    problems = tuple(_problem(one) for one in problem.get("errors", ()) if "kind" in one)
    kind = _CLASSES.get(name)
    if kind is None:
        return ServiceError(detail, status=status, kind=name if name in _TITLES else "request", problems=problems)
    error = kind.__new__(kind)
    error.args = (detail,)
    fields: dict[str, Any] = {"what": detail, "found": None, "expected": None, "fix": None}
    if issubclass(kind, TableError | errors.PlanError):
        fields["problems"] = problems
    if issubclass(kind, InfeasibleError):
        fields["conflicts"] = tuple(problem.get("conflicts", ()))
    if issubclass(kind, errors.ReportError):
        fields["result"] = None
    error.__dict__.update(fields)
    return error


def error_named(name: str, message: str, problems: Sequence[Mapping[str, Any]] = ()) -> DiscoError:
    """The error of this class name, as jobs keep it; a DiscoError where this program does not know the class."""
    kind = getattr(errors, name, None)
    known = kind if isinstance(kind, type) and issubclass(kind, DiscoError) and kind in _KINDS else None
    if known is None:
        return DiscoError(message)
    urn = f"{_URN}{_KINDS[known][1]}"
    return error_of({"type": urn, "detail": message, "status": _KINDS[known][0], "errors": list(problems)})


def _kind(error: DiscoError) -> tuple[int, str, str]:
    return next((_KINDS[kind] for kind in type(error).__mro__ if kind in _KINDS), _FALLBACK)


def _field(problem: Problem) -> dict[str, Any]:
    return {"field": problem.column or problem.file, **problem.as_dict()}


def _problem(field: dict[str, Any]) -> Problem:
    names = ("kind", "file", "column", "found", "expected", "fix", "row", "rows")
    return Problem(**{name: field[name] for name in names if name in field})
