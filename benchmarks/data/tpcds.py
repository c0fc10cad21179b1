"""TPC-DS: its data, its 99 queries as views, and rounds of changes to its tables."""

from __future__ import annotations

from pathlib import Path

import duckdb
from duckdb_extensions import import_extension

from benchmarks.data.query_texts import translated

TICKETS = {
    "store_sales": "ss_ticket_number",
    "catalog_sales": "cs_order_number",
    "web_sales": "ws_order_number",
    "store_returns": "sr_ticket_number",
    "catalog_returns": "cr_order_number",
    "web_returns": "wr_order_number",
}


def queries() -> dict[str, str]:
    """The queries in Spark's SQL, by the names of their views: ds01 … ds99."""
    return translated("tpcds", "ds")


def data(scale: float, directory: Path) -> list[str]:
    """Generate a scale's tables as Parquet files in a directory; returns their names."""
    import_extension("tpcds")
    with duckdb.connect() as db:
        db.execute(f"LOAD tpcds; CALL dsdgen(sf={scale:g})")
        tables = [name for (name,) in db.execute("SHOW TABLES").fetchall()]
        for table in tables:
            db.execute(f"COPY {table} TO '{directory / table}.parquet'")
    return tables


def moved(number: int) -> list[str]:
    """A round of changes: sales and their returns in and out, stock, prices, people who move."""
    new, old = number % 50, (number + 25) % 50
    statements = []
    for table, ticket in TICKETS.items():
        statements += [
            f"INSERT INTO {table} BY NAME SELECT {ticket} + 1000000 AS {ticket}, * EXCEPT ({ticket}) "
            f"FROM {table} WHERE {ticket} % 50 = {new}",
            f"DELETE FROM {table} WHERE {ticket} % 50 = {old}",
        ]
    return [
        *statements,
        f"UPDATE inventory SET inv_quantity_on_hand = 0 WHERE inv_item_sk % 50 = {new}",
        f"UPDATE item SET i_current_price = i_current_price + 1 WHERE i_item_sk % 50 = {new}",
        f"UPDATE customer_address SET ca_state = 'GA', ca_zip = '30301' WHERE ca_address_sk % 20 = {new % 20}",
        f"UPDATE customer SET c_current_addr_sk = c_current_addr_sk + 1 WHERE c_customer_sk % 20 = {new % 20}",
    ]
