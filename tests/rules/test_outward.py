"""Joins that begin at a change meet what is small before they ask for rows of large tables."""

from __future__ import annotations

from belvedere.algebra.printing import tree
from belvedere.analyses.sizes import Sizes, Statistics
from belvedere.rules.delta import delta
from belvedere.rules.outward import FEW, outward
from belvedere.sql.binder.bind import bind
from tests.sql.shop import Shop

SHOP = Shop(
    {
        "partsupp": "part bigint, supp bigint, cost bigint",
        "supplier": "id bigint, nation bigint",
        "nation": "id bigint, region string",
    }
)
TEXT = """SELECT cost FROM partsupp JOIN supplier s ON supp = s.id JOIN nation n ON nation = n.id
WHERE region = 'ASIA'"""


def terms(nations: float) -> str:
    """The change when both large tables change, with so many rows in the third."""
    rows = {"partsupp": 8e6, "supplier": 1e5, "nation": nations}
    known = Statistics(rows=rows, changed={"partsupp": 100, "supplier": 100})
    return tree(outward(delta(bind(TEXT, SHOP).plan, {"partsupp", "supplier"}), Sizes(known)))


def test_every_term_of_a_change_meets_what_is_small_before_it_asks_for_what_is_large() -> None:
    assert """
      Inner join on supp = id
        Inner join on nation = id_2
          Change of supplier: id, nation
          Filter region = 'ASIA'
            Scan nation at old: id_2 = id, region
        Scan partsupp: supp, cost""" in terms(25)


def test_what_is_large_is_joined_once() -> None:
    assert terms(25).count("Scan nation") == 2
    assert terms(10 * FEW).count("Scan nation") == 1
