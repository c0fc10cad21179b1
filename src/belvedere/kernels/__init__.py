"""Compiled loops, each beside a plain twin that defines it; imported only where they are used."""
