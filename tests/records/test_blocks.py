"""Blocks read as columns are the blocks that were written; anything else is left to the parser of JSON."""

from __future__ import annotations

import json
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.records.blocks import Block, Blocks, as_columns, parse
from breakeven.records.canonical import canonical, to_json
from breakeven.records.file import decode, encode

COUNTS = st.integers(0, 10**14)
MADE = st.builds(
    Block,
    n_steps=st.integers(1, 10**6),
    samples=COUNTS,
    ns=COUNTS,
    warmup=st.booleans(),
    boundary=st.booleans(),
)


def inside(blocks: tuple[Block, ...]) -> bytes:
    return canonical(to_json(blocks))[1:-1].encode("ascii")


@given(st.lists(MADE, min_size=1, max_size=20).map(tuple))
def test_what_was_written_is_read(blocks: tuple[Block, ...]) -> None:
    found = parse(inside(blocks))
    assert found is not None and found == blocks and tuple(found) == blocks
    assert found[-1] == blocks[-1] and len(found) == len(blocks)
    assert to_json(found) == to_json(blocks)
    assert as_columns(blocks) == found and hash(as_columns(blocks)) == hash(found)


@pytest.mark.parametrize(
    "change",
    [
        (b'"ns":5', b'"ns":-5'), (b'"ns":5', b'"ns":5.0'), (b'"ns":5', b'"ns":null'), (b'"ns":5', b'"ns":'),
        (b'"ns":5', b'"ns":true'), (b'"ns":5', b'"ns":5e1'), (b'"ns":5', b'"ns":99999999999999999999'),
        (b'"n_steps":2', b'"n_steps":0'), (b'"warmup":false', b'"warmup":7'), (b'"ns"', b'"n"'),
        (b'"boundary":false,', b""), (b"}", b',"x":1}'), (b"{", b" {"), (b"false", b"fal1se"),
        (b'"ns"', b'"ns7"'), (b'"boundary"', b'1"boundary"'), (b'"ns":5', b'"ns":5 6'),
    ],
)  # fmt: skip
def test_another_form_is_left_to_the_parser(change: tuple[bytes, bytes]) -> None:
    text = inside((Block(n_steps=2, samples=4, ns=5), Block(n_steps=2, samples=4, ns=6)))
    assert parse(text) is not None
    assert parse(text.replace(*change, 1)) is None


def test_no_block_is_none() -> None:
    assert parse(b"") is None


def test_steady_blocks_leave_out_warm_up_and_boundaries() -> None:
    made = (
        Block(n_steps=1, samples=1, ns=900, warmup=True),
        Block(n_steps=1, samples=1, ns=800, boundary=True),
        Block(n_steps=2, samples=2, ns=20),
        Block(n_steps=1, samples=1, ns=14),
    )
    steady = as_columns(made).steady
    assert steady is not None
    assert (steady.median_ns, steady.longest_ns, steady.ns, steady.n_steps, steady.samples) == (
        12,
        14,
        34,
        3,
        3,
    )
    assert as_columns(made[:2]).steady is None and as_columns(()).steady is None


@pytest.mark.parametrize("marked", [(1, 3), (0, 2), (0, 4), (), (0, 1, 2, 3, 4)])
def test_steady_blocks_need_not_lie_in_one_piece(marked: tuple[int, ...]) -> None:
    made = tuple(
        Block(
            n_steps=2, samples=4, ns=10 + index, warmup=index == 0 and 0 in marked, boundary=index in marked
        )
        for index in range(5)
    )
    found, kept = parse(inside(made)), [block for i, block in enumerate(made) if i not in marked]
    assert found is not None and found.steady == as_columns(made).steady
    assert (found.steady is None) == (not kept)
    if found.steady is not None:
        assert found.steady.ns == sum(block.ns for block in kept)
        assert found.steady.median_ns == median(block.ns / 2 for block in kept)
    crossing = tuple(block for block in made if block.boundary and not block.warmup)
    assert found.crossing == crossing and len(found.crossing) == len(crossing)


def test_a_line_read_is_the_line_written_and_written_again_the_same() -> None:
    from analysis.conftest import a_case, sampled

    line = sampled(a_case(), 0, 2.0)
    text = encode(line)
    found = decode(text)
    assert isinstance(found.blocks, Blocks) and found == line and encode(found) == text
    # Spaces are as good JSON, only not this package's own.
    assert decode(json.dumps(json.loads(text)).encode()) == line
