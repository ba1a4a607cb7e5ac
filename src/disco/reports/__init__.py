"""Charts and reports: values in, one self-contained HTML file out.

Names come from their modules: a table for a terminal needs no charts.
"""
