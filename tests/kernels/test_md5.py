"""md5 by the kernel is md5, for texts of any length."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from belvedere.kernels.hashes.md5 import digests, plain


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=200), max_size=5))
@example([b"x" * n for n in range(140)])
@example([])
def test_the_kernel_is_its_twin(texts: list[bytes]) -> None:
    data = b"".join(texts)
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    assert digests(np.frombuffer(data, np.uint8), offsets).tobytes() == plain(data, offsets)
