"""How long the properties look for a counterexample."""

from hypothesis import HealthCheck, settings

settings.register_profile("default", max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("default")
