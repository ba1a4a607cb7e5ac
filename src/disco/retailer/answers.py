"""What customers do with their codes. Each answer is a pure function of (seed, campaign, customer, depth).

The chance numbers of a customer in a campaign are shared by all depths: a deeper code never turns a purchase into none,
and never makes a basket smaller.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtri, pdtrik

from disco.records.arrays import Flags, Integers, Keys, Vector
from disco.records.identity import customer_keys
from disco.retailer.draws import salts, uniforms
from disco.retailer.life import DAY, SECOND, items_of, pennies, return_delay, returned_value
from disco.retailer.population import Customers, customers_at, log_basket, purchase_probability, rise
from disco.retailer.sent import SentCodes
from disco.retailer.settings import ChannelName, RetailerSettings
from disco.retailer.site import spend_time
from disco.retailer.tables import SCHEMAS, instants, site_table


@dataclass(frozen=True, slots=True)
class Chance:
    """The uniforms of customers in campaigns, one per row and purpose."""

    seed: int
    keys: Keys
    campaign: Integers  # place of the row's campaign in names
    names: list[str]

    def uniform(self, purpose: str) -> Vector:
        return uniforms(self.keys, salts=salts(self.seed, purpose=purpose, names=self.names)[self.campaign])

    def normal(self, purpose: str) -> Vector:
        return np.asarray(ndtri(self.uniform(purpose)), np.float64)

    def poisson(self, mean: Vector, purpose: str) -> Integers:
        """The smallest count whose cumulative probability reaches the uniform."""
        return np.asarray(np.maximum(np.ceil(pdtrik(self.uniform(purpose), mean)), 0), np.int64)


@dataclass(frozen=True, slots=True)
class Answers:
    """One entry per code, in the order of the codes."""

    bought: Flags
    full_price: Vector  # of a purchase; also computed where none happened
    items: Integers
    ordered_at: Integers
    looked: Flags  # visited the site because of the code; every buyer did


def answer(sent: SentCodes, customers: Customers, chance: Chance, *, settings: RetailerSettings) -> Answers:
    """Purchase with probability p(depth); ln F = b + s·g + campaign_residual_sd·ε; redeemed after a delay."""
    g = rise(customers, sent.depth, settings=settings)
    on_site, email = (
        purchase_probability(customers, g, settings=settings, channel=channel, lapsed=customers.lapsed)
        for channel in ChannelName
    )
    probability = np.where(sent.by_email, email, on_site)
    decision = chance.uniform("purchase")
    residual = settings.baskets.campaign_residual_sd * chance.normal("basket")
    full_price = pennies(np.exp(log_basket(customers, g) + residual))
    return Answers(
        bought=decision < probability,
        full_price=full_price,
        items=items_of(full_price, customers.item_price, chance.normal("items")),
        ordered_at=sent.sent_at + _delay(sent, chance.uniform("delay"), settings=settings),
        looked=decision < np.sqrt(probability),
    )


def _delay(sent: SentCodes, place: Vector, *, settings: RetailerSettings) -> Integers:
    """Exponential with the channel's mean, conditioned on falling inside the validity; whole seconds."""
    mean = DAY * np.where(sent.by_email, settings.email.delay_days, settings.on_site.delay_days)
    validity = sent.expires_at - sent.sent_at
    delay = -mean * np.log1p(place * np.expm1(-validity / mean))
    return np.asarray(np.minimum(delay, validity - 1) // SECOND * SECOND, np.int64)


def chance_of(sent: SentCodes, *, seed: int) -> Chance:
    campaigns = pc.dictionary_encode(sent.campaign_id)
    return Chance(
        seed=seed,
        keys=customer_keys(sent.customer_id),
        campaign=np.asarray(campaigns.indices.to_numpy(zero_copy_only=False), np.int64),
        names=campaigns.dictionary.to_pylist(),
    )


def answer_tables(sent: SentCodes, *, settings: RetailerSettings) -> dict[str, pa.Table]:
    """Outcomes, and the rows that the codes add to orders, codes and site."""
    customers = customers_at(settings, index=sent.index)
    chance = chance_of(sent, seed=settings.seed)
    answers = answer(sent, customers, chance, settings=settings)
    bought = pa.array(answers.bought)
    prefix = pc.binary_join_element_wise(sent.campaign_id, sent.customer_id, "-")
    ordered_at = instants(answers.ordered_at)
    full_price = pa.array(answers.full_price)
    count = len(sent.code_id)
    nothing = pa.nulls(count, pa.string())
    outcomes = [
        pc.binary_join_element_wise("purchase", prefix, "-"),
        sent.campaign_id,
        sent.customer_id,
        sent.code_id,
        ordered_at,
        full_price,
        pa.repeat("purchase", count),
        nothing,
    ]
    orders = [
        pc.binary_join_element_wise("o", prefix, "-"),
        sent.customer_id,
        ordered_at,
        full_price,
        pa.array(pennies(answers.full_price * (1 - sent.depth))),
        pa.array(answers.items),
        sent.code_id,
    ]
    codes = [
        sent.code_id,
        sent.customer_id,
        sent.campaign_id,
        pa.array(sent.depth),
        instants(sent.sent_at),
        instants(np.where(answers.bought, answers.ordered_at, -1)),
    ]
    return {
        "outcomes": pa.table(outcomes, schema=SCHEMAS["outcomes"]).filter(bought),
        "orders": pa.table(orders, schema=SCHEMAS["orders"]).filter(bought),
        "codes": pa.table(codes, schema=SCHEMAS["codes"]),
        "site": _visits(sent, customers, chance, answers),
    }


def _visits(sent: SentCodes, customers: Customers, chance: Chance, answers: Answers) -> pa.Table:
    """A visit on the day of the order, or of the code for those who looked and did not buy."""
    site = spend_time(
        customers,
        chance.poisson,
        who=np.arange(sent.index.size),
        day=np.where(answers.bought, answers.ordered_at, sent.sent_at) // DAY,
        orders=answers.bought.astype(np.int64),
        items=np.where(answers.bought, answers.items, 0),
    )
    return site_table(site, sent.customer_id).filter(pa.array(answers.looked))


def returns_of(orders: pa.Table, *, settings: RetailerSettings) -> pa.Table:
    """All returns that orders with a campaign code will ever have, by counters of the order's id."""
    keys = customer_keys(orders["order_id"])
    number = pc.cast(pc.utf8_slice_codeunits(orders["customer_id"], 1), pa.int64())
    customers = customers_at(settings, index=number.to_numpy())
    chance = Chance(settings.seed, keys, np.zeros(keys.size, np.int64), ["orders"])
    delay = return_delay(customers.return_days, chance.uniform("return delay"), habits=settings.habits)
    value = returned_value(orders["paid"].to_numpy(), orders["items"].to_numpy(), chance.uniform("return part"))
    columns = [
        orders["order_id"].combine_chunks(),
        instants(orders["ordered_at"].cast(pa.int64()).to_numpy() + delay),
        pa.array(value),
    ]
    came_back = chance.uniform("return") < customers.return_share
    return pa.table(columns, schema=SCHEMAS["returns"]).filter(pa.array(came_back))
