// The list of episodes: filters, order, search.
const ORDERS = {
  file: ["in order", null],
  low: ["lowest return", (each) => each.return ?? -Infinity],
  high: ["highest return", (each) => -(each.return ?? -Infinity)],
  advantage: ["largest |advantage|", (each) => -(each.peak.advantages || 0)],
  ratio: ["largest ratio", (each) => -(each.peak.ratio || 0)],
  mismatch: ["largest mismatch", (each) => -(each.peak.mismatch || 0)],
  surprise: ["least likely token", (each) => -(each.peak.rollout_logprobs || 0)],
  long: ["most steps", (each) => -each.steps.length],
};
const OUTCOMES = {
  "": "all outcomes", success: "success", failure: "failure", invalid: "invalid", truncated: "truncated",
  cut: "with cut actions", left: "not learned from", findings: "with findings", lenient: "fails strictly",
};
const REWARDS = { "": "any return", zero: "return 0", some: "0 < return < 1", full: "return ≥ 1", negative: "return < 0" };

function fits(episode) {
  const tests = {
    category: (wanted) => episode.category === wanted,
    error: (wanted) => (errorOf(episode) || "none") === wanted,
    turn: (wanted) => String(episode.first_failing_turn) === wanted,
    q: (wanted) => episode.search.includes(wanted.toLowerCase()),
    outcome: (wanted) => hasOutcome(episode, wanted),
    reward: (wanted) => hasReturn(episode.return ?? 0, wanted),
  };
  return Object.entries(tests).every(([name, test]) => place[name] === "" || test(place[name]));
}

function hasOutcome(episode, wanted) {
  return {
    success: episode.success && !episode.invalid, failure: episode.success === false && !episode.invalid,
    invalid: episode.invalid, truncated: episode.truncated, cut: episode.num_cut > 0,
    left: episode.learned === false, findings: allFindings().some((each) => each.episode === episode.id),
    lenient: episode.success && episode.strict === false,
  }[wanted];
}

function hasReturn(value, wanted) {
  return { zero: value === 0, some: value > 0 && value < 1, full: value >= 1, negative: value < 0 }[wanted];
}

function updateVisible() {
  page.visible = page.data.episodes.filter(fits);
  const key = (ORDERS[place.sort] || ORDERS.file)[1];
  if (key) page.visible.sort((one, other) => key(one) - key(other));
}

function distinct(values) {
  return [...new Set(values)].filter((each) => each !== null && each !== undefined && each !== "").sort();
}

function filterBox() {
  const episodes = page.data.episodes;
  const named = (words, values) => [["", words], ...values.map((each) => [String(each), String(each)])];
  return el("div", { class: "filters", role: "search" },
    el("input", { type: "search", id: "search", placeholder: "Search texts and results …", "aria-label": "Search", value: place.q, oninput: (event) => searchLater(event.target.value) }),
    select("Category", "category", named("all categories", distinct(episodes.map((each) => each.category)))),
    select("Outcome", "outcome", Object.entries(OUTCOMES)),
    select("Error type", "error", named("all errors", distinct(episodes.map(errorOf)))),
    select("First failing turn", "turn", [["", "any turn"], ...distinct(episodes.map((each) => each.first_failing_turn)).map((turn) => [String(turn), `fails in turn ${turn + 1}`])]),
    select("Return", "reward", Object.entries(REWARDS)),
    select("Order", "sort", Object.entries(ORDERS).map(([name, [words]]) => [name, words])),
    el("div", { class: "count" }, el("span", { id: "count" }, countText()),
      button("Clear filters", () => go({ q: "", category: "", outcome: "", error: "", turn: "", reward: "", sort: "file" }))));
}

function countText() {
  return `${page.visible.length} of ${page.data.episodes.length} episodes`;
}

// On a narrow screen the list is folded until this button is pressed.
function browseButton() {
  return button(`☰ ${countText()}`, (event) => event.target.parentElement.classList.toggle("open"), { class: "browse" });
}

let searchTimer = 0;
function searchLater(text) {
  clearTimeout(searchTimer);
  searchTimer = setTimeout(() => {
    history.replaceState(null, "", address({ q: text }));
    readAddress();
    updateVisible();
    document.querySelector(".list").replaceWith(episodeList());
    document.getElementById("count").textContent = countText();
    drawArticle();
  }, 120);
}

function episodeList() {
  const chosen = chosenEpisode();
  return el("ol", { class: "list", "aria-label": "Episodes" }, page.visible.map((episode) => {
    const [outcome, kind] = outcomeOf(episode);
    return el("li", {}, el("button", {
      type: "button", "data-id": episode.id, "aria-current": String(episode === chosen),
      onclick: () => go({ e: episode.id, t: "" }),
    }, el("span", { class: "name" }, episode.task), chip(outcome, kind),
      el("small", {}, `${episode.category} · ${episode.steps.length} step${episode.steps.length === 1 ? "" : "s"} · return ${number(episode.return)}${errorOf(episode) ? ` · ${errorOf(episode)}` : ""}`)));
  }));
}
