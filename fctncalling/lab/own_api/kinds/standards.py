"""Standard values: time zones, codes of countries and currencies, addresses of machines and so on.

A standard says how a value is drawn, what is one, and in which other words people say it.
"""

from __future__ import annotations

import datetime
import ipaddress
import random
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from fctncalling.lab.own_api.kinds.value_tables import (
    names_of_codes,
    value_table,
    zone_names,
    zones,
)


@dataclass(frozen=True)
class Standard:
    """One form of value: `draw` makes one, `reads` says whether a text is one, `says` its words."""

    draw: Callable[[random.Random], str]
    reads: Callable[[str], bool]
    says: Callable[[str], Sequence[str]] = lambda value: ()


def _listed(table: str, says: Callable[[str], Sequence[str]] = lambda value: ()) -> Standard:
    return Standard(
        lambda rng: rng.choice(value_table(table)),
        lambda text: text in set(value_table(table)),
        says,
    )


def _shaped(
    draw: Callable[[random.Random], str],
    pattern: str,
    says: Callable[[str], Sequence[str]] = lambda v: (),
) -> Standard:
    return Standard(draw, lambda text: re.fullmatch(pattern, text) is not None, says)


def _of_table(table: str, pattern: str) -> Standard:
    return _shaped(lambda rng: rng.choice(value_table(table)), pattern)


def _hex(digits: int) -> Standard:
    return _shaped(
        lambda rng: "".join(rng.choice("0123456789abcdef") for _ in range(digits)),
        f"[0-9a-fA-F]{{{digits}}}",
    )


@cache
def _only_named(sort: str) -> Mapping[str, str]:
    """Return code -> English name where no other code has that name."""
    names = names_of_codes(sort)
    every = list(names.values())
    return {code: name for code, name in names.items() if every.count(name) == 1}


def _named(sort: str) -> Callable[[str], Sequence[str]]:
    def says(code: str) -> Sequence[str]:
        name = _only_named(sort).get(code.upper() if sort == "currencies" else code)
        return (name,) if name else ()

    return says


def _coordinate(axis: int) -> Callable[[random.Random], str]:
    return lambda rng: f"{draw_place(rng)[axis]:g}"


def draw_place(rng: random.Random) -> tuple[float, float]:
    """Return latitude and longitude of a place on land."""
    zone = rng.choice(zones())
    return zone.latitude, zone.longitude


def _pair(rng: random.Random) -> str:
    latitude, longitude = draw_place(rng)
    return f"{latitude:g},{longitude:g}"


def _is_between(text: str, bound: float) -> bool:
    return re.fullmatch(r"-?\d{1,3}(\.\d+)?", text) is not None and abs(float(text)) <= bound


def _is_pair(text: str) -> bool:
    one, _, two = text.partition(",")
    return _is_between(one.strip(), 90) and _is_between(two.strip(), 180)


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return "/" in text


def _is_address(number: int) -> Callable[[str], bool]:
    def reads(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == number
        except ValueError:
            return False

    return reads


def _words(rng: random.Random, mark: str) -> str:
    return mark.join((rng.choice(value_table("adjective")), rng.choice(value_table("word"))))


def _branch(rng: random.Random) -> str:
    front = rng.choice(("feature/", "fix/", "release/", "", ""))
    return f"{front}{_words(rng, '-')}"


def _folder(rng: random.Random) -> str:
    parts = [rng.choice(value_table("word")) for _ in range(rng.randint(1, 2))]
    return "/".join(("", rng.choice(("data", "home", "srv", "projects")), *parts))


def _file_path(rng: random.Random) -> str:
    return f"{_folder(rng)}/{rng.choice(value_table('file'))}"


def _semver(rng: random.Random) -> str:
    return f"{rng.randint(0, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 30)}"


def _cron(rng: random.Random) -> str:
    minute, hour = rng.choice((0, 0, 15, 30, 45)), rng.randint(0, 23)
    day = rng.choice(("* * *", "* * *", "* * 1", "* * 1-5", "1 * *"))
    return f"{minute} {hour} {day}"


def _said_cron(value: str) -> Sequence[str]:
    minute, hour, *rest = value.split(" ")
    days = {"* * *": "every day", "* * 1": "every Monday", "* * 1-5": "Monday to Friday"}
    day = days.get(" ".join(rest))
    is_clock = minute.isdigit() and hour.isdigit()
    return (f"{day} at {int(hour):02d}:{int(minute):02d}",) if day and is_clock else ()


_DURATIONS = {"S": "second", "M": "minute", "H": "hour"}
_ISO_DURATION = r"P(?=.)(\d+[YMWD])*(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?"


def _duration(rng: random.Random) -> tuple[int, str]:
    unit = rng.choice("SMMHH")
    return rng.choice(
        {"S": (10, 30, 45, 90), "M": (5, 10, 15, 20, 45), "H": (1, 2, 3, 8, 12)}[unit]
    ), unit


def _said_duration(value: str) -> Sequence[str]:
    found = re.fullmatch(r"(?:PT)?(\d+)([SMHsmh])", value)
    if not found:
        return ()
    word = _DURATIONS[found[2].upper()]
    return (f"{found[1]} {word}{'' if found[1] == '1' else 's'}",)


def _said_zone(value: str) -> Sequence[str]:
    city = value.rsplit("/", 1)[-1].replace("_", " ")
    is_only = sum(zone.city == city for zone in zones()) == 1
    return (f"{city} time",) if is_only and value in value_table("time_zone") else ()


def _iso_interval(rng: random.Random) -> str:
    first = datetime.datetime(2026, 1, 1) + datetime.timedelta(hours=rng.randrange(26_280))
    last = first + datetime.timedelta(hours=rng.randint(1, 72))
    return f"{first:%Y-%m-%dT%H:%M:%SZ}/{last:%Y-%m-%dT%H:%M:%SZ}"


def _hex_colour(rng: random.Random) -> str:
    return "".join(rng.choice("0123456789ABCDEF") for _ in range(6))


STANDARDS: Mapping[str, Standard] = {
    "time_zone": Standard(
        lambda rng: rng.choice(value_table("time_zone")),
        lambda text: text in zone_names(),
        _said_zone,
    ),
    "country_code": _listed("country_code", _named("territories")),
    "country_code_3": _listed("country_code_3"),
    "country": _listed("country"),
    "currency_code": _listed("currency_code", _named("currencies")),
    "currency_code_small": Standard(
        lambda rng: rng.choice(value_table("currency_code")).lower(),
        lambda text: text.islower() and text.upper() in set(value_table("currency_code")),
        _named("currencies"),
    ),
    "language_code": Standard(
        lambda rng: rng.choice(value_table("language_code")),
        lambda text: len(text) == 2 and text in names_of_codes("languages"),
        _named("languages"),
    ),
    "language": _listed("language"),
    "locale": _of_table("locale", r"[a-z]{2}-[A-Z]{2}"),
    "locale_underscore": _shaped(
        lambda rng: rng.choice(value_table("locale")).replace("-", "_"), r"[a-z]{2}_[A-Z]{2}"
    ),
    "latitude": Standard(_coordinate(0), lambda text: _is_between(text, 90)),
    "longitude": Standard(_coordinate(1), lambda text: _is_between(text, 180)),
    "coordinates": Standard(_pair, _is_pair),
    "hex_color": _shaped(lambda rng: f"#{_hex_colour(rng)}", "#[0-9a-fA-F]{6}"),
    "hex_color_bare": _shaped(_hex_colour, "[0-9a-fA-F]{6}"),
    "color": Standard(
        lambda rng: rng.choice(value_table("color")),
        lambda text: re.fullmatch(r"[a-z]{3,12}", text) is not None,
    ),
    "ipv4": Standard(lambda rng: rng.choice(value_table("ipv4")), _is_address(4)),
    "ipv6": Standard(lambda rng: rng.choice(value_table("ipv6")), _is_address(6)),
    "cidr": Standard(lambda rng: f"10.{rng.randrange(256)}.{rng.randrange(256)}.0/24", _is_network),
    "mac_address": _of_table("mac_address", r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}"),
    "hostname": _of_table("hostname", r"(?=.{4,253}$)([a-zA-Z0-9-]{1,63}\.)+[a-zA-Z]{2,}"),
    "semver": _shaped(_semver, r"\d+\.\d+\.\d+([-+][\w.+-]+)?"),
    "semver_v": _shaped(lambda rng: f"v{_semver(rng)}", r"v\d+\.\d+\.\d+([-+][\w.+-]+)?"),
    "sha1": _hex(40),
    "sha256": _hex(64),
    "md5": _hex(32),
    "mime_type": _of_table(
        "mime_type", r"(application|audio|image|message|model|multipart|text|video|font)/[\w.+-]+"
    ),
    "iban": _of_table("iban", r"[A-Z]{2}\d\d[A-Z0-9]{11,30}"),
    "bic": _of_table("bic", r"[A-Z]{6}[A-Z0-9]{2}([A-Z0-9]{3})?"),
    "isbn": _of_table("isbn", r"(97[89]-?)?(\d-?){9}[\dX]"),
    "cron": _shaped(_cron, r"(\S+ ){4}\S+", _said_cron),
    "iso_duration": _shaped(
        lambda rng: "PT{}{}".format(*_duration(rng)), _ISO_DURATION, _said_duration
    ),
    "short_duration": _shaped(
        lambda rng: "{}{}".format(*_duration(rng)).lower(), r"\d+[smhd]", _said_duration
    ),
    "state": _listed("state"),
    "state_code": _listed("state_code"),
    "emoji": _shaped(lambda rng: rng.choice("👍🎉🚀🔥👀📌✅💡📚🌱"), r"\W{1,4}"),
    "iso_interval": _shaped(_iso_interval, r"\d{4}-\d\d-\d\dT[\d:]{8}Z/\d{4}-\d\d-\d\dT[\d:]{8}Z"),
    "http_method": _shaped(lambda rng: rng.choice(("GET", "POST")), "GET|POST|PUT|PATCH|DELETE"),
    "branch": _shaped(_branch, r"[\w./-]+"),
    "slug": _shaped(lambda rng: _words(rng, "-"), r"[a-z0-9]+(-[a-z0-9]+)*"),
    "slug_underscore": _shaped(lambda rng: _words(rng, "_"), r"[a-z0-9]+(_[a-z0-9]+)*"),
    "folder": _shaped(_folder, r"\.?/?([\w.-]+/?)+"),
    "file_path": _shaped(_file_path, r"\.?/?([\w.-]+/)+[\w-]+\.\w{1,5}"),
    "unix_time": _shaped(lambda rng: str(1_767_225_600 + 3600 * rng.randrange(26_280)), r"\d{10}"),
    "count": _shaped(lambda rng: str(rng.randint(1, 60)), r"\d{1,4}"),
    "numeric_id": _shaped(
        lambda rng: "".join(
            (rng.choice(string.digits[1:]), *(rng.choice(string.digits) for _ in range(7)))
        ),
        r"\d{5,20}",
    ),
}
"""Form -> its standard."""


@dataclass(frozen=True)
class Family:
    """Standards of one sort, by the words that mean it.

    `name` ends a parameter's words, `about` stands in its description; either means the sort.
    `forms`: (standard, words that mean it and no other of the sort; "" for what goes without).
    """

    name: re.Pattern[str]
    about: re.Pattern[str] | None
    forms: tuple[tuple[str, re.Pattern[str]], ...]


def families_of(rows: Sequence[Mapping[str, Any]]) -> tuple[Family, ...]:
    """Return the families of a table's rows."""
    return tuple(
        Family(
            re.compile(rf"\b(?:{row['name']})$"),
            re.compile(row["about"]) if "about" in row else None,
            tuple((name, re.compile(words)) for name, words in row["forms"].items()),
        )
        for row in rows
    )


def standard_of(
    families: Sequence[Family],
    name: str,
    about: str,
    evidence: Sequence[str],
    takes: Callable[[str], bool],
) -> str | None:
    """Infer a parameter's standard from its name and description; None if there is none.

    `evidence`: examples and defaults, all of which the standard must read. `takes` says whether the
    schema takes a value.
    """
    rng = random.Random(name)
    words = f"{name}. {about}"
    for family in families:
        by_name = family.name.search(name)
        if not by_name and not (family.about and family.about.search(about)):
            continue
        fitting = [
            (form, hint)
            for form, hint in family.forms
            if (not evidence or all(map(STANDARDS[form].reads, evidence)))
            and takes(STANDARDS[form].draw(rng))
        ]
        hinted = [form for form, hint in fitting if hint.pattern and hint.search(words)]
        plain = [form for form, hint in fitting if not hint.pattern]
        shown = [form for form, _ in fitting] if evidence else []
        if chosen := (hinted or shown or plain):
            return chosen[0]
    return None
