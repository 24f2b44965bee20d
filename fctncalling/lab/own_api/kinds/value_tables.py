"""Value tables from Faker, Babel, tzdata and pools.json.

Each table is drawn once, from a seed of its own, so that a value costs one choice.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from itertools import cycle
from typing import Any, NamedTuple

from fctncalling.specification.api import SpecificationError

LIBRARIES = {"faker": "Faker", "babel": "babel", "tzdata": "tzdata", "regex": "regex"}
"""Module of a library -> its distribution."""
DRAWN = 600  # values of one of Faker's tables
NAMES_OF = ("en_GB", "en_US", "en_IN", "en_KE", "de_DE", "es_ES", "it_IT")
ENGLISH = ("en_GB",)
COMMON_SHARE = 6  # times that a country stands in the table which Faker has people of


def library(module: str) -> Any:
    """Return a module of a library of values; SpecificationError, with the cure, without it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        name = LIBRARIES[module.split(".")[0]]
        raise SpecificationError(
            f"values of an API need the library {name}: pip install 'fctncalling[api]'"
        ) from None


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that determine drawn values."""
    for module in LIBRARIES:
        library(module)
    return {name: version(name) for name in LIBRARIES.values()}


@cache
def own_texts() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Return the texts that no library has, each with the other forms that mean the same."""
    text = files("fctncalling.lab.own_api.kinds").joinpath("pools.json").read_text(encoding="utf-8")
    tables: dict[str, list[str | list[str]]] = json.loads(text)
    return {
        name: {one: tuple(more) for one, *more in ([e] if isinstance(e, str) else e for e in rows)}
        for name, rows in tables.items()
    }


def other_forms(topic: str, value: Any) -> tuple[str, ...]:
    """Return the other forms of a value of a table: "Lisbon, Portugal" of Lisbon."""
    return own_texts().get(topic, {}).get(value, ())


@cache
def value_table(name: str) -> tuple[str, ...]:
    """Return a table by name; raises KeyError."""
    if name in own_texts():
        return tuple(own_texts()[name])
    if name in _OF_FAKER:
        locales, draw, pattern = _OF_FAKER[name]
        return tuple(
            dict.fromkeys(
                each for each in _drawn(name, locales, draw) if re.fullmatch(pattern, each)
            )
        )
    return _OF_WORLD[name]()


def has_table(name: str) -> bool:
    """Return whether there is a table of a name."""
    return name in own_texts() or name in _OF_FAKER or name in _OF_WORLD


@cache
def _faker(locales: tuple[str, ...]) -> Any:
    """Return Faker for locales; for several, only their names, as the others take long."""
    providers = None if len(locales) == 1 else ["faker.providers.person"]
    return library("faker").Faker(list(locales), providers=providers, use_weighting=False)


def _drawn(name: str, locales: tuple[str, ...], draw: str) -> list[str]:
    fake = _faker(locales)
    fake.seed_instance(f"own API: {name}")
    return [str(getattr(fake, draw)()).strip() for _ in range(DRAWN)]


_WORD = r"[A-Z][a-z]{1,11}"
_OF_FAKER: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "first": (NAMES_OF, "first_name", _WORD),
    "last": (NAMES_OF, "last_name", _WORD),
    "street": (ENGLISH, "street_name", r"[A-Za-z ]{6,24}"),
    "state": (("en_US",), "state", r".+"),
    "state_code": (("en_US",), "state_abbr", r".+"),
    "organisation": (ENGLISH, "company", r"[A-Za-z ,&.-]{4,24}"),
    "occupation": (ENGLISH, "job", r"[A-Za-z ]{4,24}"),
    "username": (ENGLISH, "user_name", r".{4,16}"),
    "ipv4": (ENGLISH, "ipv4_private", r".+"),
    "ipv6": (ENGLISH, "ipv6", r".+"),
    "mac_address": (ENGLISH, "mac_address", r".+"),
    "hostname": (ENGLISH, "hostname", r".+"),
    "mime_type": (ENGLISH, "mime_type", r".+"),
}
"""Table -> the locales it is drawn of, Faker's method, a pattern of the values that are kept."""


class Zone(NamedTuple):
    """One time zone of tzdata, with the place in its name."""

    name: str
    countries: tuple[str, ...]
    latitude: float
    longitude: float

    @property
    def city(self) -> str:
        """The place: "Buenos Aires" of America/Argentina/Buenos_Aires."""
        return self.name.rsplit("/", 1)[-1].replace("_", " ")


@cache
def zones() -> tuple[Zone, ...]:
    """Return the zones that tzdata lists for people to choose from."""
    table = files(library("tzdata")).joinpath("zoneinfo", "zone1970.tab").read_text("utf-8")
    rows = [line.split("\t") for line in table.splitlines() if not line.startswith("#")]
    every = (Zone(row[2], tuple(row[0].split(",")), *_degrees(row[1])) for row in rows)
    return tuple(each for each in every if not each.name.startswith("Antarctica"))


def _degrees(place: str) -> tuple[float, float]:
    """Return latitude and longitude of ISO 6709: +DDMM+DDDMM, with or without seconds."""
    found = re.fullmatch(r"([+-])(\d\d)(\d\d)(\d\d)?([+-])(\d{3})(\d\d)(\d\d)?", place)
    assert found is not None, place
    one, two = found.groups()[:4], found.groups()[4:]
    both = [
        (-1 if sign == "-" else 1) * (int(d) + int(m) / 60 + int(s or 0) / 3600)
        for sign, d, m, s in (one, two)
    ]
    return round(both[0], 2), round(both[1], 2)


@cache
def names_of_codes(sort: str) -> Mapping[str, str]:
    """Return code -> English name of territories, languages or currencies."""
    return dict(getattr(library("babel").Locale("en"), sort))


@cache
def _countries() -> tuple[str, ...]:
    """Return the ISO 3166-1 codes, those of common countries several times."""
    every = sorted({code for zone in zones() for code in zone.countries})
    common = sorted({each for _, each in _locales() if each in every})
    return tuple(common * COMMON_SHARE + every)


@cache
def _locales() -> tuple[tuple[str, str], ...]:
    """Return (language, country) of the locales that Faker speaks."""
    listed = library("faker.config").AVAILABLE_LOCALES
    pairs = [each.split("_") for each in listed if re.fullmatch(r"[a-z]{2}_[A-Z]{2}", each)]
    known = library("babel.localedata").exists
    return tuple((one, two) for one, two in pairs if known(f"{one}_{two}"))


def _currencies() -> tuple[str, ...]:
    numbers, known = library("babel.numbers"), names_of_codes("currencies")
    every = [(numbers.get_territory_currencies(each) or [""])[0] for each in _countries()]
    return tuple(each for each in every if each in known)


@cache
def _capitals() -> tuple[str, ...]:
    return tuple(c.capital for c in library("faker.providers.date_time").Provider.countries)


def _cities() -> tuple[str, ...]:
    places = [zone.city for zone in zones()]
    return tuple(dict.fromkeys(each for each in (*places, *_capitals()) if each.isascii()))


def _replaced(table: str, old: str, new: str) -> tuple[str, ...]:
    return tuple(text.replace(old, new) for text in value_table(table))


def _paths(table: str) -> tuple[str, ...]:
    """Return texts of a table as paths, in folders that take turns."""
    folders = cycle(("data", "home", "srv", "projects"))
    return tuple(f"/{next(folders)}/{text}" for text in value_table(table))


_ENDS = "pdf txt csv docx xlsx png jpg zip md json".split()
_OF_WORLD: Mapping[str, Callable[[], tuple[str, ...]]] = {
    "time_zone": lambda: tuple(
        zone.name
        for zone in zones()
        for _ in range(COMMON_SHARE if zone.city in _capitals() else 1)
    ),
    "zone_name": lambda: tuple(  # former ones included
        files(library("tzdata")).joinpath("zones").read_text("utf-8").split()
    ),
    "latitude": lambda: tuple(f"{zone.latitude:g}" for zone in zones()),
    "longitude": lambda: tuple(f"{zone.longitude:g}" for zone in zones()),
    "coordinates": lambda: tuple(f"{zone.latitude:g},{zone.longitude:g}" for zone in zones()),
    "city": _cities,
    "slug": lambda: tuple(
        f"{adjective}-{word}"
        for word in value_table("word")
        for adjective in value_table("adjective")
    ),
    "slug_underscore": lambda: _replaced("slug", "-", "_"),
    "absolute_folder": lambda: _paths("word"),
    "file_path": lambda: _paths("file"),
    "file": lambda: tuple(f"{word}.{end}" for word in value_table("word") for end in _ENDS),
    "country_code": _countries,
    "country_code_3": lambda: tuple(
        country.alpha_3_code
        for country in library("faker.providers.date_time").Provider.countries
        for _ in range(_countries().count(country.alpha_2_code))
    ),
    "country": lambda: tuple(names_of_codes("territories")[each] for each in _countries()),
    "currency_code": _currencies,
    "language_code": lambda: tuple(dict.fromkeys(language for language, _ in _locales())),
    "language": lambda: tuple(
        dict.fromkeys(names_of_codes("languages")[language] for language, _ in _locales())
    ),
    "any_language_code": lambda: tuple(c for c in names_of_codes("languages") if len(c) == 2),
    "currency_code_small": lambda: tuple(code.lower() for code in _currencies()),
    "locale": lambda: tuple("-".join(each) for each in _locales()),
    "locale_underscore": lambda: tuple("_".join(each) for each in _locales()),
    "color": lambda: tuple(library("faker.providers.color").Provider.safe_colors),
}
