"""What people see of a result: its tables, charts and sentences, as values, and the self-contained HTML page of them.

Names come from their modules: a table for a terminal needs no charts.
"""
