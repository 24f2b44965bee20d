"""Agreement of a scorer with BFCL's verdicts, stratum by stratum."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fctncalling.lab.conformance.single_turn_mutations import GROUPS


class ExpectedVerdict(NamedTuple):
    """Verdict that a scorer is expected to give an answer, with the answer's stratum."""

    stratum: str
    valid: bool
    error_type: str | None
    task_id: str
    change: str
    shown: str  # the answer's beginning


@dataclass
class Stratum:
    """Counts of one stratum, and its first answer on which a scorer is wrong."""

    valid: bool
    count: int = 0
    agreed: int = 0
    counterexample: str = ""

    @property
    def percent(self) -> str:
        """The agreement in percent."""
        return _rate(self.agreed, self.count)

    @property
    def agreement(self) -> float:
        """Share of answers on which a scorer agrees."""
        return self.agreed / self.count if self.count else 0.0


@dataclass
class Agreement:
    """Agreement in every stratum."""

    strata: dict[str, Stratum] = field(default_factory=dict)
    categories: Counter[str] = field(default_factory=Counter)

    def add(self, expected: ExpectedVerdict, valid: bool | None, why: str = "") -> None:
        """Count a scorer's verdict; None is no verdict, and no agreement."""
        agrees = valid is expected.valid
        given = {
            True: "valid",
            False: "wrong",
            None: f"no verdict ({why})" if why else "no verdict",
        }
        official = "valid" if expected.valid else f"wrong ({expected.error_type})"
        words = f"The scorer says {given[valid]}, BFCL {official}: {expected.shown}"
        counterexample = f"{expected.task_id}: {expected.change}. {words}"
        self.count(expected.stratum, expected.valid, agrees, counterexample)

    def count(self, name: str, valid: bool, agrees: bool, words: str) -> None:
        """Count an answer of a stratum and keep its first counterexample in words."""
        stratum = self.strata.setdefault(name, Stratum(valid))
        stratum.count += 1
        stratum.agreed += agrees
        if not agrees and not stratum.counterexample:
            stratum.counterexample = words

    def sorted_strata(self) -> list[tuple[str, Stratum]]:
        """Return the strata, group by group."""
        order = {group: index for index, group in enumerate(GROUPS)}
        return sorted(
            self.strata.items(), key=lambda each: (order[each[0].partition("/")[0]], each[0])
        )

    def of(self, group: str = "") -> tuple[int, int]:
        """Return agreed and all answers of a group, or of all groups."""
        chosen = [each for name, each in self.strata.items() if name.startswith(group)]
        return sum(each.agreed for each in chosen), sum(each.count for each in chosen)

    def badge(self, version: str, oracle: str, title: str = "BFCL conformance") -> str:
        """Return one line on how far a scorer agrees."""
        groups = ", ".join(
            f"{group} {_rate(*self.of(f'{group}/'))}" for group in GROUPS if self.of(f"{group}/")[1]
        )
        return (
            f"{title} {_rate(*self.of())} of {self.of()[1]} answers ({groups}; {oracle}, "
            f"fctncalling {version})"
        )

    def report(self) -> dict[str, Any]:
        """Return the strata as JSON."""
        return {
            name: {
                "agreement": each.agreement,
                "count": each.count,
                "valid": each.valid,
                **({"counterexample": each.counterexample} if each.counterexample else {}),
            }
            for name, each in self.sorted_strata()
        }


def _rate(agreed: int, count: int) -> str:
    """Return a share in percent; 100 % only if every answer agrees."""
    if not count:
        return "-"
    text = f"{agreed / count:.1%}"
    return "99.9%" if text == "100.0%" and agreed < count else text
