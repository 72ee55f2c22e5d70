"""Number types that are no faster than FP32 on a device, by its measured ceilings (contract R23).

Knows nothing about cases' times: hardware that takes a type may still compute it slowly, or in emulation.
"""

from collections.abc import Iterator, Sequence

from breakeven.analysis.findings import CaseFinding, CeilingFinding, QualityFinding

PRODUCT, PLAIN = "matmul_", "matmul_fp32"


def slow_types(ceilings: Sequence[CeilingFinding], cases: Sequence[CaseFinding]) -> Iterator[QualityFinding]:
    """One finding for each type whose measured matrix product is below that of FP32 on the same device.

    Ceilings of one file. One that was measured while others used the machine, or refused, tells nothing.
    """
    told = {
        (_machine(c), c.device_label, c.name): c
        for c in ceilings
        if c.value is not None and "contended" not in c.flags
    }
    for (machine, device, name), found in told.items():
        plain = told.get((machine, device, PLAIN))
        if plain is None or not name.startswith(PRODUCT):
            continue
        value, reference = found.value or 0.0, plain.value or 0.0
        if value < reference:
            kind = name.removeprefix(PRODUCT)
            yield QualityFinding(
                flag="slow_type",
                text=f"{kind} on {device}: {value / reference:.0%} of FP32's rate in a matrix product",
                cases=sum(c.device_label == device and c.ceiling_precision == kind for c in cases),
                evidence=(*found.evidence, *plain.evidence),
            )


def _machine(ceiling: CeilingFinding) -> str:
    """The fingerprint that the finding's line is of, the first part of its id."""
    return ceiling.evidence[0].partition("/")[0] if ceiling.evidence else ""
