"""Words of requests: descriptions of every style become something that a person asks for."""

from __future__ import annotations

import re
from random import Random

import pytest

from fctncalling.data.types import FunctionDoc
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.kinds.evidence import infer_argument_kind
from fctncalling.lab.own_api.words.clauses import said_flag
from fctncalling.lab.own_api.words.doc_sentence import imperative
from fctncalling.lab.own_api.words.frames import frames_of_function
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.labelled_values import can_be_said, said_values
from fctncalling.lab.own_api.words.questions import question_phrases
from fctncalling.lab.own_api.words.request_fit import RequestFit
from fctncalling.lab.own_api.words.request_text import said_call
from fctncalling.lab.own_api.words.spoken_values import (
    address_text,
    enum_value_words,
    spoken_value,
)


@pytest.mark.parametrize(
    ("name", "description", "expected"),
    [
        (
            "cancel_tour",
            "Calls a tour off and tells everybody.",
            "call a tour off and tell everybody",
        ),
        ("splitBill", "Splitting a bill in parts", "split the bill"),
        ("set_diet", "Kitchen order of a patient.", "set kitchen order of a patient"),
        ("list_beds", "Beds of a ward.", "show me beds of a ward"),
        ("left", "How much work a member has.", "tell me how much work a member has"),
        ("parking", "Is there space in the garage?", "show me the parking"),
        ("block_card", "Key card lost? This helps.", "block the card"),
        ("give_up_plot", "A tenant stops: the plot goes back.", "give up the plot"),
        ("pick", "Grapes are picked.", "pick grapes"),
        ("cask_move", "Wine goes from one cask to another", "move the cask"),
        ("set_guard", "Start, change or end precautions.", "set the guard"),
    ],
)
def test_a_description_is_asked_for_as_an_imperative(
    name: str, description: str, expected: str
) -> None:
    assert imperative(description, name) == expected


def test_sums_in_cents_are_said_in_money_and_codes_in_small_letters() -> None:
    cents = infer_argument_kind(
        "amount_cents",
        {"type": "integer", "description": "Total in euro cents."},
        required=True,
    )
    assert "123.45" in spoken_value(cents, 12345, Random(0))
    price = infer_argument_kind("price_per_kilo", {"type": "number"}, required=True)
    assert not price.unit
    state = infer_argument_kind(
        "state", {"type": "string", "enum": ["CARE_HOME", "MRI"]}, required=True
    )
    assert "care home" in enum_value_words(state, "CARE_HOME")
    assert enum_value_words(state, "MRI") == ["MRI"]


def test_a_number_that_says_which_one_is_no_amount() -> None:
    described = {"member": "Membership number", "bags": "Number of bags"}
    kinds = [
        infer_argument_kind(name, {"type": "integer", "description": text}, required=True).kind
        for name, text in described.items()
    ]
    assert kinds == ["identifier", "integer"]


def words_of(method: str, path: str, description: str, *names: str) -> FunctionWords:
    """Return the words of an operation whose parameters are all demanded identifiers."""
    properties = {name: {"type": "string", "description": ""} for name in names}
    parameters = {"type": "dict", "properties": properties, "required": list(names)}
    kind = ArgumentKind("identifier", "string")
    own = {
        name: {"name": name, "in": "path" if f"{{{name}}}" in path else "query"} for name in names
    }
    name = re.sub(r"\W+", "_", f"{method.lower()}{path}").strip("_")
    origin = {"method": method, "path": path, "parameters": own}
    return FunctionWords(
        FunctionDoc(name, description, parameters), dict.fromkeys(names, kind), origin
    )


@pytest.mark.parametrize(
    ("method", "path", "description", "phrase", "nouns"),
    [
        ("GET", "/audiobooks/{id}", "Get an Audiobook", "get {id}", {"id": "audiobook"}),
        (
            "GET",
            "/users/{id}/repos",
            "",
            "list the repositories of {id}",
            {"id": "user"},
        ),
        ("GET", "/albums/{id}/tracks", "Get Album Tracks", "list the tracks of {id}", {}),
        ("GET", "/orgs/{org}/repos", "List an org's repos.", "list the repositories of {org}", {}),
        ("POST", "/posts/{id}/notes", "Create a note on a post", "add a new note on {id}", {}),
        ("DELETE", "/runs/{run_id}", "", "get rid of {run_id}", {"run_id": "run"}),
        ("PATCH", "/pages/{id}", "Update page properties", "change the properties of {id}", {}),
        ("PUT", "/user/starred/{repo}", "Star a repository", "star {repo}", {}),
        ("POST", "/runs/{run_id}/cancel", "", "have {run_id} cancelled", {}),
        (
            "DELETE",
            "/groups/{group_id}/users/{user_id}",
            "Removes a user from a group.",
            "remove {user_id} from {group_id}",
            {},
        ),
        ("GET", "/stations/{id}", "Returns metadata about a given radar station", "see {id}", {}),
        ("GET", "/me/albums", "Get User's Saved Albums", "see my saved albums", {}),
        ("GET", "/user/logout", "Logs out current logged in user session", "log out", {}),
        ("GET", "/bill/files/{bill_id}", "Download files", "download the files of {bill_id}", {}),
        (
            "POST",
            "/bill/drop_user/{bill_id}",
            "Remove user from bill",
            "remove the user from {bill_id}",
            {"bill_id": "bill"},
        ),
        (
            "GET",
            "/boxes/{box_id}/files/{file_id}/content",
            "Get box file content",
            "get the content of {file_id} of {box_id}",
            {},
        ),
        ("DELETE", "/addresses/{id}", "Deletes the details of an address", "delete {id}", {}),
        ("DELETE", "/checks/{id}", "Cancel", "cancel {id}", {"id": "check"}),
        (
            "POST",
            "/mailers/{id}/orders",
            "Creates a new order given information",
            "create a new order for {id}",
            {},
        ),
        ("GET", "/evals/{id}/runs", "List runs for a project", "list the runs of {id}", {}),
        ("POST", "/casts/{id}/send", "Send or schedule a cast", "send {id}", {"id": "cast"}),
    ],
)
def test_an_operation_is_asked_for_by_its_verb_its_thing_and_what_that_belongs_to(
    method: str, path: str, description: str, phrase: str, nouns: dict[str, str]
) -> None:
    words = words_of(method, path, description, *re.findall(r"\{(\w+)\}", path))
    operation = words.operation
    assert operation is not None
    phrases = [text for _, text in operation.phrases()]
    assert any(text.startswith(phrase) for text in phrases), phrases
    assert nouns.items() <= operation.nouns.items()


@pytest.mark.parametrize(
    ("name", "description", "value", "expected"),
    [
        ("deleted", "Whether to include deleted items", True, "and include deleted items"),
        ("deleted", "Whether to include deleted items", False, "do not include deleted items"),
        ("in_trash", "Set to true to delete a block.", True, "and delete a block"),
        ("archived", "Set to true to archive a shop.", False, "do not archive it"),
        ("open", "Indicates whether the shop is open", False, "the shop is not open"),
        ("include_tests", "", True, "with tests"),
        ("send_mail", "", False, "do not send mail"),
        ("beta", "", True, "with beta turned on"),
        ("force_roles", "", True, "and force roles"),
    ],
)
def test_flags_are_said_as_wishes(name: str, description: str, value: bool, expected: str) -> None:
    words = words_of("GET", "/shops", "List shops", name)
    kind = ArgumentKind("boolean", "boolean", description=description)
    words = FunctionWords(words.doc, {name: kind}, words.origin)
    said = {said_flag(words, name, value, Random(seed))[0] for seed in range(20)}
    assert expected in said


@pytest.mark.parametrize(
    ("method", "path", "schema", "values", "expected"),
    [
        ("POST", "/a", {"use_type": {}, "front": {}}, {"use_type": "x", "front": "y"}, None),
        (
            "PATCH",
            "/a/{id}",
            {
                "data": {
                    "type": "object",
                    "properties": {
                        "type": {"type": "string", "enum": ["a-thing"]},
                        "title": {"type": "string"},
                    },
                }
            },
            {"data": {"type": "a-thing", "title": "Up"}},
            "the title to Up",
        ),
        (
            "POST",
            "/a",
            {"parent": {"type": "object", "properties": {"page_id": {"type": "string"}}}},
            {"parent": {"page_id": "P-1"}},
            "parent page",
        ),
    ],
)
def test_values_of_operations_are_said_with_their_nouns_and_constants_are_not(
    method: str,
    path: str,
    schema: dict[str, dict[str, object]],
    values: dict[str, object],
    expected: str | None,
) -> None:
    words = words_of(method, path, "Update a thing" if "id" in path else "Create a thing", "id")
    kinds = {
        name: infer_argument_kind(name, {"type": "string", **each}, required=True)
        for name, each in schema.items()
    }
    words = FunctionWords(words.doc, {**words.kinds, **kinds}, words.origin)
    assert all(can_be_said(words, name, value) for name, value in values.items())
    for seed in range(20):
        said = " ".join(each.text for each in said_values(words, values, "do", Random(seed)))
        texts = [expected] if expected else [words.label(name) for name in values]
        plain = said.replace('"', "").replace("'", "").replace(" is ", " to ")
        assert all(text in plain or "new title" in plain for text in texts), said
        assert "thing" not in said


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("tell where {x} is, by its code", "where is {x}"),
        ("tell me what a crossing would cost", "what would a crossing cost"),
        ("find out how much a crossing costs", "how much does a crossing cost"),
        ("check whether {x} is on time", "is {x} on time"),
        ("show which courses {x} has and when they are due", "which courses does {x} have"),
        ("list who is in", "do you know who is in"),
    ],
)
def test_what_a_function_tells_is_asked_for_directly(sentence: str, question: str) -> None:
    phrases = [text for mood, text in question_phrases(sentence) if mood == "ask"]
    assert question in phrases
    assert len({*question_phrases(sentence)}) >= 8


def test_a_destination_that_values_say_is_not_half_left_over() -> None:
    told = "Move a visit to another day or another time of the day."
    frames = frames_of_function(words_of("PATCH", "/visits/{id}", told, "id"))
    assert len({frame.text for frame in frames}) >= 8
    assert not [frame.text for frame in frames if "of the day" in frame.text]


def test_a_verb_keeps_the_particle_behind_its_object() -> None:
    told = "Sign a student up for a course."
    frames = frames_of_function(words_of("POST", "/courses/{course}", told, "course"))
    assert "sign up a student for {course}" in {frame.text for frame in frames}


LISTED = {
    "state": {"type": "string", "enum": ["paid", "open"], "description": "Only such orders."},
    "from_date": {"type": "string", "format": "date"},
    "to_date": {"type": "string", "format": "date"},
}


def test_states_stand_before_their_noun_and_two_ends_are_one_span() -> None:
    words = words_of("GET", "/orders", "List orders.", "state")
    kinds = {
        name: infer_argument_kind(name, schema, required=False) for name, schema in LISTED.items()
    }
    words = FunctionWords(words.doc, kinds, words.origin)
    values = {"state": "paid", "from_date": "2026-01-02", "to_date": "2026-02-03"}
    [frame] = [each for each in frames_of_function(words) if each.text == "list the orders"]
    said = [said_call(words, frame, values, Random(seed)) for seed in range(40)]
    assert sum("the paid orders" in each.phrase for each in said) > 5
    spans = ("from .+ (?:to|until|till) .+", "between .+ and .+")
    texts = [" ".join((each.phrase, *each.sentences)) for each in said]
    assert sum(any(re.search(span, text) for span in spans) for text in texts) > 20
    assert not [text for text in texts if "the from date" in text or "state paid" in text]


def test_an_address_is_written_as_on_a_letter_with_its_receiver_before_it() -> None:
    address = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in ("street", "zip", "town")},
    }
    whole = {
        "type": "object",
        "properties": {"receiver": {"type": "string"}, "address": address},
    }
    value = {"street": "Long Lane 4", "zip": "04109", "town": "Leeds"}
    kind = infer_argument_kind("destination", whole, required=True)
    said = address_text(kind, {"receiver": "Ada Brook", "address": value})
    assert said == "Ada Brook, Long Lane 4, 04109 Leeds"
    assert not address_text(kind, {"receiver": "Ada Brook"})


def test_a_request_fits_the_function_that_it_names_without_its_values() -> None:
    fit = RequestFit(
        [
            ("listReposForUser", "List a user's repositories.", "/users/{id}/repos"),
            ("listReposForOrg", "List an organization's repositories.", "/orgs/{id}/repos"),
            ("getRepo", "Get a repository.", "/repos/{id}"),
            ("deleteRepo", "Delete a repository.", "/repos/{id}"),
        ]
    )
    names = ("listReposForUser", "listReposForOrg", "getRepo", "deleteRepo")
    for text, values, function in (
        ("Which repositories does the user 12 have?", ["12"], "listReposForUser"),
        ("Show me all repositories of organization Acme.", ["Acme"], "listReposForOrg"),
        ("I need the repository 7.", ["7"], "getRepo"),
        ("Repository 7 can go.", ["7"], "deleteRepo"),
    ):
        assert [n for n in names if fit.names_all(text, values, {n}, names)] == [function]
    assert not any(fit.names_all("Get 1rAeqf3.", ["1rAeqf3"], {name}, names) for name in names)
    assert not fit.names_all("Get user", ["user"], {"listReposForUser"}, names)
    letters = RequestFit([("get_s", "Get the s parameter of a wave.", ""), ("get_t", "Get t.", "")])
    assert letters.names_all("Show me the s parameter.", [], {"get_s"}, ("get_s", "get_t"))
