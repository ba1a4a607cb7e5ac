"""Codes: single-use and unguessable, the same for the same (campaign, customer) under one secret; bought; or shared.

A made code is the first 80 bits of HMAC-SHA256(secret, message), in groups of four characters. The message is
`campaign U+001F customer`, and ` U+001F attempt` after it from the second attempt on. An id that itself contains U+001F
could be mistaken for another id and attempt, so its message gives the length of each part and begins with U+001F,
which no campaign's name contains: different (campaign, customer, attempt) always have different messages.

Where a depth has a shared code, a made code is kept for each customer all the same. It is never sent: it names the use
of the shared code by this customer, so that the ledger, the evidence and every check know one code per customer.
`sent_codes` gives what customers see, `own_codes` what an outcome with a shared code is about
(docs/decisions/100-shared-codes.md).
"""

import hmac
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Flags, Integers, Vector
from disco.records.errors import InputError, StateError
from disco.records.identity import customer_keys
from disco.records.plan import Plan
from disco.records.wording import counted
from disco.store.decisions import SqlDecisions

if TYPE_CHECKING:
    from disco.operations.audience import ShopData

CodeIds: TypeAlias = "pa.Array | pa.ChunkedArray | Iterable[object]"  # of customers: integers or text

ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"  # 32 characters; no 0/O, 1/I: nobody mistypes a look-alike
LENGTH = 16  # 80 bits
_POOL_CODE = r"\A[A-Za-z0-9][A-Za-z0-9_.-]{3,63}\z"
_EXPECTED_CODE = "4 to 64 letters, digits, '-', '_' and '.', beginning with a letter or digit"
_LEAST_ASKED = 64  # codes of a pool that are looked up at once
_WIDTH = LENGTH + 3  # with the dashes
_BETWEEN = "\x1f"  # the parts of a message
_FEW = 64  # codes that are made sooner in Python than Numba is imported
_ATTEMPTS = 8  # with 2⁸⁰ codes the second is never needed, unless a secret or a pool repeats itself


def make_codes(ids: CodeIds, *, campaign: str, secret: bytes, prefix: str | None = None, attempt: int = 0) -> pa.Array:
    """One code per customer; another `attempt` makes other ones.

    >>> code = make_codes([17], campaign="spring", secret=b"k" * 32)[0].as_py()
    >>> code.count("-"), make_codes([17], campaign="spring", secret=b"k" * 32, prefix="SPRING")[0].as_py()[:7]
    (3, 'SPRING-')
    """
    names = _names(ids)
    plain = attempt == 0 and len(names) > _FEW and not pc.any(pc.match_substring(names, _BETWEEN)).as_py()
    make = _codes_of_column if plain else _codes_one_by_one
    codes = make(names, campaign=campaign, secret=secret, attempt=attempt)
    return codes if prefix is None else pc.binary_join_element_wise(prefix, codes, "-")


def _names(ids: CodeIds) -> pa.Array:
    """Ids as the text that goes into their messages."""
    if not isinstance(ids, pa.Array | pa.ChunkedArray):
        return pa.array([str(one) for one in ids], pa.large_string())
    names = ids.cast(pa.large_string())
    return names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names


def _codes_one_by_one(names: pa.Array, *, campaign: str, secret: bytes, attempt: int) -> pa.Array:
    """As the head of this module says: what the compiled half must give, too."""
    ending = f"{_BETWEEN}{attempt}" if attempt else ""
    digests = b"".join(
        hmac.digest(
            secret,
            (
                f"{campaign}{_BETWEEN}{name}{ending}"
                if _BETWEEN not in name
                else f"{_BETWEEN}{len(campaign)}:{campaign}{len(name)}:{name}{attempt}"
            ).encode(),
            sha256,
        )[:10]
        for name in names.to_pylist()
    )
    # ten bytes are sixteen groups of five bits
    bits = np.unpackbits(np.frombuffer(digests, np.uint8)).reshape(-1, LENGTH, 5)
    places = bits @ (1 << np.arange(4, -1, -1)).astype(np.uint8)
    letters = np.frombuffer(ALPHABET.encode(), np.uint8)[places]
    text = np.insert(letters, (4, 8, 12), ord("-"), axis=1) if len(letters) else np.zeros((0, _WIDTH), np.uint8)
    return _as_text(np.ascontiguousarray(text).ravel())


def _codes_of_column(names: pa.Array, *, campaign: str, secret: bytes, attempt: int) -> pa.Array:
    """The same, compiled, of first attempts for ids without U+001F."""
    from disco.operations.code_kernels import BLOCK, START, K, write_codes

    key = sha256(secret).digest() if len(secret) > BLOCK else secret
    _, offsets, data = names.buffers()
    letters = np.empty(len(names) * _WIDTH, np.uint8)
    write_codes(
        np.frombuffer(key.ljust(BLOCK, b"\0"), np.uint8),
        np.frombuffer(f"{campaign}{_BETWEEN}".encode(), np.uint8),
        np.frombuffer(offsets, np.int64, len(names) + 1, names.offset * 8),
        np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8),
        np.frombuffer(ALPHABET.encode(), np.uint8),
        START,
        K,
        letters,
    )
    return _as_text(letters)


def _as_text(letters: "np.ndarray[tuple[int], np.dtype[np.uint8]]") -> pa.Array:
    """Codes whose letters stand one after the other."""
    count = letters.size // _WIDTH
    codes = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_WIDTH), count, [None, pa.py_buffer(letters)])
    return codes.cast(pa.binary()).cast(pa.string())


def new_codes(
    decisions: SqlDecisions | None,
    ids: CodeIds,
    *,
    campaign: str,
    secret: bytes,
    prefix: str | None = None,
) -> pa.Array:
    """Codes that nobody has: whoever would share one gets another attempt.

    decisions: those of the campaign so far; None at its launch. Other campaigns are not asked: their codes come from
    another message under the secret, so that two of 2⁸⁰ are equal once in 2⁸⁰ pairs.
    """
    names = _names(ids)
    codes = make_codes(names, campaign=campaign, secret=secret, prefix=prefix)
    for attempt in range(1, _ATTEMPTS):
        taken = _taken(codes, campaign, decisions)
        if not taken.size:
            return codes
        left = names.take(pa.array(taken))
        others = make_codes(left, campaign=campaign, secret=secret, prefix=prefix, attempt=attempt)
        mask = np.zeros(len(codes), np.bool_)
        mask[taken] = True
        codes = pc.replace_with_mask(codes, pa.array(mask), others)
    raise StateError("Every code made for a customer is in use already", fix="Use another secret.")


_FIX_POOL = "Order new codes, or shorten the file to those that are unused."


def usable_codes(pool: Sequence[str], *, shared: Collection[str] = ()) -> pa.Array:
    """The codes of a pool bought elsewhere, without spaces around them; InputError where one cannot be handed out.

    shared: the plan's shared codes, which are for everybody.
    """
    codes = pa.array([code.strip() for code in pool], pa.string())
    if not len(codes):
        fix = "Give one code per line."
        raise InputError("pool of codes", found="no codes", expected="a code for each customer", fix=fix)
    if pc.any(pc.equal(codes, "")).as_py():
        raise InputError("pool of codes", found="an empty line", expected="a code in every line")
    others = np.flatnonzero(~pc.match_substring_regex(codes, _POOL_CODE).to_numpy(zero_copy_only=False))
    if others.size:  # not shown: the file may be another one than was meant
        found = f"{counted(others.size, 'line')} without a usable code, the first is entry {others[0] + 1:,}"
        raise InputError("pool of codes", found=found, expected=_EXPECTED_CODE, fix="Correct the file.")
    if (distinct := len(pc.unique(codes))) < len(codes):
        found = counted(len(codes) - distinct, "repeated code")
        raise InputError("pool of codes", found=found, expected="every code once", fix=_FIX_POOL)
    both = codes.filter(which_shared(codes, shared).is_valid()) if shared else codes[:0]
    if len(both):
        found, expected = f"the shared code {both[0].as_py()}", "codes for one customer each"
        raise InputError("pool of codes", found=found, expected=expected, fix="Remove it from the file.")
    return codes


class CodePool:
    """A pool that is kept in memory: which of its codes are usable is looked at once, and which are in use not twice.

    codes: as the file has them. shared: the plan's shared codes.
    """

    def __init__(self, codes: Sequence[str], *, shared: Collection[str] = ()) -> None:
        self._codes = usable_codes(codes, shared=shared)
        self._first = 0  # all codes before this one are in use, for good

    def unused(self, decisions: SqlDecisions, *, needed: int) -> pa.Array:
        """The first `needed` codes that are not in use."""
        found: list[str] = []
        place = self._first
        while len(found) < needed and place < len(self._codes):
            part = self._codes.slice(place, max(2 * needed, _LEAST_ASKED))
            used = pc.is_in(part, value_set=decisions.codes_in_use(part)).to_numpy(zero_copy_only=False)
            if not found:
                self._first = place + (int(np.argmin(used)) if not used.all() else len(used))
            found += part.filter(pa.array(~used)).to_pylist()
            place += len(part)
        refuse_too_few(len(found), needed=needed)
        return pa.array(found[:needed], pa.string())


def pool_codes(
    decisions: SqlDecisions,
    pool: Sequence[str],
    *,
    needed: int,
    all_new: bool,
    shared: Collection[str] = (),
) -> pa.Array:
    """The first `needed` unused codes of a pool bought elsewhere; `all_new`: none of it may be in use."""
    codes = usable_codes(pool, shared=shared)
    used = decisions.codes_in_use(codes)
    if all_new and len(used):
        found = f"{len(used):,} codes in use, the first {used[0].as_py()}"
        raise InputError("pool of codes", found=found, expected="codes of no campaign", fix=_FIX_POOL)
    unused = codes.filter(pc.invert(pc.is_in(codes, value_set=used)))
    refuse_too_few(len(unused), needed=needed)
    return unused.slice(0, needed)


def refuse_too_few(unused: int, *, needed: int) -> None:
    """InputError where a pool has fewer codes than a launch needs."""
    if unused < needed:
        raise InputError(
            "pool of codes", found=counted(unused, "unused code"), expected=f"at least {needed:,}", fix=_FIX_POOL
        )


def read_pool(data: "ShopData", plan: Plan) -> list[str] | None:
    """Codes bought elsewhere, where the plan names a file of them: one per line."""
    if plan.codes.pool is None:
        return None
    return data.lines(plan.codes.pool, setting="codes.pool", holds="code")


def codes_for(
    decisions: SqlDecisions,
    plan: Plan,
    ids: CodeIds,
    depths: Sequence[float] | Vector,
    *,
    pool: Sequence[str] | CodePool | None,
    secret: bytes | None,
    late: bool = False,
) -> pa.Array:
    """A code for each of these customers of a campaign: from its pool where the plan names one, else made.

    depths: what each of them gets. Shared codes are none of these: a made one is kept in their place.
    """
    if (plan.codes.pool is None) != (pool is None):
        raise StateError(
            f"campaign {plan.campaign}",
            found="a pool of codes" if pool is not None else "no pool of codes",
            expected="no pool: its plan names none" if pool is not None else f"the codes of {plan.codes.pool}",
        )
    key = decisions.secret() if secret is None else secret
    so_far = decisions if late else None
    if pool is None:
        return new_codes(so_far, ids, campaign=plan.campaign, secret=key, prefix=plan.codes.prefix)
    shares = np.isin(np.asarray(depths, np.float64), list(plan.shared_codes))
    needed = int((~shares).sum())
    single = (
        pool.unused(decisions, needed=needed)
        if isinstance(pool, CodePool)
        else pool_codes(decisions, pool, needed=needed, all_new=not late, shared=plan.shared_codes.values())
    )
    if not shares.any():
        return single
    sharers = _names(ids).filter(pa.array(shares))
    kept = new_codes(so_far, sharers, campaign=plan.campaign, secret=key)
    place = np.empty(shares.size, np.int64)
    place[~shares], place[shares] = np.arange(len(single)), len(single) + np.arange(len(kept))
    return pa.concat_arrays([single, kept]).take(pa.array(place))


def sent_codes(plan: Plan, decisions: pa.Table) -> pa.Array:
    """What each decision's customer was sent: the shared code of their depth, else their own; null without a code."""
    own = decisions["code"].combine_chunks()
    if not plan.shared_codes:
        return own
    depths = pa.array(list(plan.shared_codes), pa.float64())
    place = pc.index_in(decisions["depth"].combine_chunks(), value_set=depths)
    shared = pa.array(list(plan.shared_codes.values()), pa.string()).take(place)
    return pc.if_else(own.is_valid(), pc.coalesce(shared, own), own)


def which_shared(codes: pa.Array, shared: Collection[str]) -> pa.Array:
    """(n,) the place of each code among the shared ones, whatever its case and spaces around it; null: it is none."""
    typed = pc.utf8_upper(pc.utf8_trim_whitespace(codes))
    return pc.index_in(typed, value_set=pc.utf8_upper(pa.array(list(shared), pa.string())))


def own_codes(
    shared: Mapping[float, str], customers: pa.Array, codes: pa.Array, decisions: pa.Table
) -> tuple[pa.Array, Flags]:
    """Of received rows: the code kept for a customer in the place of a shared one, and who used one unsent.

    A shared code is known whatever its case and spaces around it, because customers type it.

    shared: by depth. customers, codes (n,): as received, text. decisions: at least those of these customers.
    """
    depths = np.array([*shared, np.nan])
    which = which_shared(codes, shared.values())
    shares = np.asarray(which.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    place = pc.index_in(customers, value_set=decisions["customer_id"].cast(pa.string()).combine_chunks())
    known = np.asarray(place.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    wanted = depths[pc.fill_null(which, len(depths) - 1).to_numpy(zero_copy_only=False)]
    theirs = decisions["depth"].combine_chunks().take(place).to_numpy(zero_copy_only=False)
    has = shares & known & (theirs == wanted)
    kept = decisions["code"].combine_chunks().take(place)
    return pc.if_else(pa.array(has), kept, codes), shares & ~has


def _taken(codes: pa.Array, campaign: str, decisions: SqlDecisions | None) -> Integers:
    """Rows whose code is in use in the campaign, or was made for an earlier row."""
    taken = np.zeros(len(codes), np.bool_)
    keys = np.sort(customer_keys(codes, where="code"))
    if (keys[1:] == keys[:-1]).any():  # mostly none; where keys repeat, the texts decide
        taken = pc.index_in(codes, value_set=codes).to_numpy(zero_copy_only=False) != np.arange(len(codes))
    if decisions is not None:
        in_use = decisions.codes_in_use(codes, campaign=campaign)
        taken |= pc.is_in(codes, value_set=in_use).to_numpy(zero_copy_only=False)
    return np.flatnonzero(taken)
