"""Kinds that the words of a name or description mean, in one table for all APIs."""

from __future__ import annotations

import re
from typing import NamedTuple


class InferredKind(NamedTuple):
    """Kind that words mean, with its topic."""

    kind: str
    topic: str = ""


# In order: the first row of which a word stands in the name, or in the head of the description.
_TABLE: tuple[tuple[str, InferredKind], ...] = (
    (r"e?mail|mailbox", InferredKind("email")),
    (r"phone|telephone|mobile|cell|fax|msisdn", InferredKind("phone")),
    (r"url|uri|link|website|homepage|webhook|callback", InferredKind("url")),
    (r"uuid|guid", InferredKind("identifier")),
    (r"postcode|zip|zipcode|postal code", InferredKind("identifier", "postcode")),
    (
        r"ids?|identifier|number|no|code|ref|reference|sku|isbn|iban|vin|plate|token|key|slug|barcode",
        InferredKind("identifier"),
    ),
    (r"full names?", InferredKind("person_name", "full")),
    (r"first name and surname", InferredKind("person_name", "full")),
    (r"first name|given name|forename|nickname", InferredKind("person_name", "first")),
    (r"last name|surname|family name", InferredKind("person_name", "last")),
    (r"user ?name|login|handle|account name", InferredKind("free_text", "username")),
    (r"file ?name|file|path|attachment|document", InferredKind("free_text", "file")),
    (r"country code", InferredKind("free_text", "country_code")),
    (r"language code|locale|lang", InferredKind("free_text", "language_code")),
    (r"currency", InferredKind("free_text", "currency")),
    (r"language", InferredKind("free_text", "language")),
    (r"country|nation|nationality", InferredKind("place", "country")),
    (r"street|address|addr", InferredKind("place", "street")),
    (
        r"city|town|place|location|destination|origin|venue|region|station|airport|port|area|"
        r"district",
        InferredKind("place", "city"),
    ),
    (
        r"company|organi[sz]ation|employer|vendor|supplier|brand|manufacturer|shop|store|merchant|"
        r"business|firm|bank|clinic|restaurant|hotel|school",
        InferredKind("free_text", "organisation"),
    ),
    (r"department|team|division", InferredKind("free_text", "department")),
    (
        r"person|people|author|owner|organi[sz]er|reader|customer|client|guest|member|patient|"
        r"passenger|employee|sender|receiver|recipient|contact|attendees?|participants?|assignee|"
        r"doctor|driver|teacher|student|speaker|holder|borrower|tenant|artist|somebody|someone|who",
        InferredKind("person_name"),
    ),
    (r"subject|title|headline|caption|label", InferredKind("free_text", "title")),
    (r"reason|cause|why|justification", InferredKind("free_text", "reason")),
    (
        r"problem|issue|defect|fault|damage|symptoms?|complaint|what is wrong",
        InferredKind("free_text", "problem"),
    ),
    (r"message|body|content|text|announcement|reply|answer", InferredKind("free_text", "message")),
    (
        r"note|notes|comment|comments|remark|remarks|instructions|details|description|memo|wish|"
        r"wishes|requests?",
        InferredKind("free_text", "note"),
    ),
    (r"query|search|words?|keywords?|term|phrase|filter|q", InferredKind("free_text", "query")),
    (r"tags?|category|categories|topic|labels", InferredKind("free_text", "tag")),
    (r"colou?r", InferredKind("free_text", "color")),
    (r"weekday", InferredKind("free_text", "weekday")),
    (r"book|song|film|movie|album|track|playlist|story", InferredKind("free_text", "work")),
    (r"dish|meal|food|recipe|menu|ingredient|drink", InferredKind("free_text", "food")),
    (r"pet|animal|breed|species", InferredKind("free_text", "animal")),
    (r"job|occupation|profession|role", InferredKind("free_text", "occupation")),
    (
        r"product|item|article|thing|object|goods|device|equipment|part|model|tool",
        InferredKind("free_text", "thing"),
    ),
)
_DATES = (
    r"date|day|birthday|dob|since|until|deadline|due|arrival|departure|expiry|check in|check out"
)
_TIMES = r"time|hour|start|end|begin|opening|closing"
_COUNTS = r"id|number|no|code"


def infer_kind_from_words(name: str, description: str) -> tuple[InferredKind | None, bool]:
    """Return the kind that words mean, and whether the name alone says so.

    The head noun counts: the name's last words first, then the description's first clause; "name"
    alone is a person's where that clause speaks of one.
    """
    words = name_words(name)
    head = re.split(r"[.,;:(]", description.lower())[0]
    of_name = _moment(words) or _in_table(words, last=True)
    if words.endswith("name") and of_name is None:
        of_head = _in_table(f"{words} {head}")
        named = of_head if of_head and of_head.kind in ("person_name", "free_text") else None
        return named or InferredKind("free_text", "title"), not head
    if of_name is not None:
        return of_name, not _says(head, of_name, words)
    of_head = _moment(head) or _in_table(head)
    return of_head, False


def name_words(name: str) -> str:
    """Return a name's words, in lower case: "contactEmail", "contact_email" -> "contact email"."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return re.sub(r"[^A-Za-z0-9]+", " ", spaced).strip().lower()


def _in_table(words: str, *, last: bool = False) -> InferredKind | None:
    end = "$" if last else r"\b"
    for pattern, meant in _TABLE:
        if re.search(rf"\b(?:{pattern}){end}", words):
            return meant
    return _in_table(words) if last and " " in words else None


def _moment(words: str) -> InferredKind | None:
    if re.search(r"\b(?:datetime|timestamp|moment|date time|(?:[a-z]+ed|when) at)$", words):
        return InferredKind("datetime")
    if re.search(rf"\b(?:{_DATES})$", words) or re.search(r"\bdate\b", words):
        return InferredKind("date")
    return InferredKind("time") if re.search(rf"\b(?:{_TIMES})$", words) else None


def _says(head: str, meant: InferredKind, words: str) -> bool:
    """Return whether a description says the same as the name."""
    found = _moment(head) or _in_table(head)
    return (found is not None and found.kind == meant.kind) or (words in head and bool(head))
