"""How long the properties look for a counterexample: the same few each time, or `--deep` as told."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

_COMMON: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("default", max_examples=40, derandomize=True, **_COMMON)
settings.register_profile("deep", max_examples=300, print_blob=True, **_COMMON)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("deep" if config.getoption("--deep") else "default")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Under `--deep` a property is tried on new examples until its share of the time is over."""
    seconds: float = pyfuncitem.config.getoption("--deep")
    if not seconds or not is_hypothesis_test(pyfuncitem.obj):
        return None
    properties = [
        i for i in pyfuncitem.session.items if is_hypothesis_test(getattr(i, "obj", None))
    ]
    end = time.monotonic() + seconds / len(properties)
    while time.monotonic() < end:
        pyfuncitem.obj()
    return True
