"""A simulated retailer with known truth: raw tables, customers who answer codes, and the law they answer by."""

from disco.retailer.settings import RetailerSettings
from disco.retailer.simulation import Response, Retailer, Truth

__all__ = ["Response", "Retailer", "RetailerSettings", "Truth"]
