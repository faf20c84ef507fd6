"""The two headers that mark a request."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.agent.errors import UsageError
from trilat.agent.marking import (
    RUN_ID_LENGTH,
    new_run_id,
    run_header,
    run_is_allowed,
    token_bytes,
    trace_context,
)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
VISIBLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=200)


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255))
def test_traceparent_is_read_as_written(trace: int, span: int, flags: int) -> None:
    """Every pair of ids but zero survives, whatever the flags."""
    value = f"00-{trace:032x}-{span:016x}-{flags:02x}"
    high, low = divmod(trace, 2**64)
    assert trace_context(value.encode()) == (high, low, span)


# The rules of https://www.w3.org/TR/trace-context/#traceparent-header-field-values, one by one.
@pytest.mark.parametrize(
    ("value", "valid"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", True),
        (f"00-{TRACE}-{SPAN}-ff", True),  # unknown flags are for others
        (f"cc-{TRACE}-{SPAN}-01", True),  # a later version
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", True),
        (f"cc-{TRACE}-{SPAN}-01-", True),
        (f"cc-{TRACE}-{SPAN}-01.what-the-future-does-not-bring", False),
        (f"cc-{TRACE}-{SPAN}-012", False),
        (f"00-{TRACE}-{SPAN}-01-what-version-00-has-not", False),
        (f"00-{TRACE}-{SPAN}-01-", False),
        (f"00-{TRACE}-{SPAN}-01 ", False),
        (f"ff-{TRACE}-{SPAN}-01", False),  # forbidden version
        (f"0-{TRACE}-{SPAN}-01", False),
        (f"000-{TRACE}-{SPAN}-01", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),  # an id of zeros is invalid
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE[:-1]}-{SPAN}-01", False),
        (f"00-{TRACE}0-{SPAN}-01", False),
        (f"00-{TRACE}-{SPAN[:-1]}-01", False),
        (f"00-{TRACE}-{SPAN}0-01", False),
        (f"00-{TRACE[:-1]}-0{SPAN}-01", False),  # the right length, a dash in the wrong place
        (f"00-{TRACE.upper()}-{SPAN}-01", False),  # lower case only
        (f"00-{TRACE}-{SPAN.upper()}-01", False),
        (f"00-{TRACE}-{SPAN}-0A", False),
        (f"0x-{TRACE}-{SPAN}-01", False),
        (f"00-{TRACE[:-1]}g-{SPAN}-01", False),
        (f"00-{TRACE}-{SPAN}-1", False),
        (f"00-{TRACE}-{SPAN}-0", False),
        (f"00-{TRACE}-{SPAN}-", False),
        (f"00-{TRACE}-{SPAN}", False),
        (f"00_{TRACE}_{SPAN}_01", False),
        (f"00a{TRACE}a{SPAN}a01", False),
        (f"00-{TRACE}-{chr(0x0661) * 16}-01", False),  # digits, but not ASCII
        (f"00-{TRACE}-+{SPAN[1:]}-01", False),  # what int() would take
        (f"00-{TRACE}-0_{SPAN[2:]}-01", False),
        (f"00-{TRACE}- {SPAN[1:]}-01", False),
        ("", False),
        ("-" * 55, False),
    ],
)
def test_traceparent_follows_the_rules(value: str, valid: bool) -> None:
    """Exactly what the specification calls valid is taken."""
    context = (int(TRACE[:16], 16), int(TRACE[16:], 16), int(SPAN, 16))
    assert trace_context(value.encode()) == (context if valid else None)


# The same rules as one expression.
RULES = re.compile(
    r"(?:00-(?=.{52}\Z)|(?!00|ff)[0-9a-f]{2}-(?=.{52}(?:-|\Z)))"
    r"(?!0{32})[0-9a-f]{32}-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}",
    re.DOTALL,
)
PARTS = st.sampled_from(["00", "cc", "ff", "-", TRACE, SPAN, "01", "0" * 16, "0" * 32, "A", "x"])


@given(st.lists(PARTS | st.text(max_size=3), max_size=10).map("".join))
def test_hostile_traceparent_is_read_by_the_same_rules(value: str) -> None:
    """No text makes the reader fail, or disagree with the rules."""
    match = RULES.match(value)
    context = trace_context(value.encode(errors="replace"))
    assert (context[2] if context else 0) == (int(match[1], 16) if match else 0)


@given(st.binary(max_size=80))
def test_bytes_that_are_no_text_are_no_traceparent(value: bytes) -> None:
    """Random bytes are no traceparent."""
    assert trace_context(value) is None


def test_run_ids_are_new_each_time() -> None:
    """A run id is 12 hexadecimal digits, and hardly ever the same."""
    ids = {new_run_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(f"[0-9a-f]{{{RUN_ID_LENGTH}}}", run) for run in ids)


@given(VISIBLE, VISIBLE)
def test_only_the_right_token_is_allowed(token: str, other: str) -> None:
    """A header made with a token is allowed by that token alone."""
    value = run_header(new_run_id(), token).encode()
    assert run_is_allowed(value, token_bytes(token))
    assert run_is_allowed(value, token_bytes(other)) == (token == other)
    assert not run_is_allowed(run_header(new_run_id(), None).encode(), token_bytes(token))


def test_no_token_allows_every_run() -> None:
    """A service without a token answers whoever marks a request, also by hand."""
    assert run_is_allowed(new_run_id().encode(), None)
    assert run_is_allowed(run_header(new_run_id(), "unasked").encode(), None)
    assert run_is_allowed(b"curl", None)


@pytest.mark.parametrize("value", [b"", b"x" * 257, b"\xe9", b"0123456789ab\xff"])
@pytest.mark.parametrize("token", [None, b"t"])
def test_malformed_run_is_refused(value: bytes, token: bytes | None) -> None:
    """Nothing that is empty, oversized or not ASCII marks a request."""
    assert not run_is_allowed(value, token)


def test_longest_token_fits_the_header() -> None:
    """A token of the greatest length still makes a header that is short enough."""
    token = "x" * 200
    assert run_is_allowed(run_header(new_run_id(), token).encode(), token_bytes(token))


@pytest.mark.parametrize("token", ["", " ", "a b", "é", "a\n", "\x7f", "x" * 201])
def test_token_that_no_header_carries_is_refused(token: str) -> None:
    """One line says what a token may be."""
    with pytest.raises(UsageError, match="1 to 200 visible ASCII characters"):
        token_bytes(token)
