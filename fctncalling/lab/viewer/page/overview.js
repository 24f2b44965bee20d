// Checks, alarms, curves and settings of the run.
const CHECK_WORDS = {
  mask: "trained tokens spell the logged answers", context: "no number of the loss at tool or user text",
  ends: "each action is marked as ended", truncation: "cut-off episodes bootstrap, ended ones do not",
  cut: "cut actions are masked as --overlong says", rewards: "rewards stand at the end of their own action",
  credit: "advantages before whitening are those of the run's formula", whitening: "advantages in the loss are the whitened ones",
  mismatch: "sampler and trainer agree on log-probabilities",
  judged: "every episode has a score", scores: "one answer to a prompt has one score",
  baseline: "advantages of a group sum to zero, and are zero where all scores are equal",
};

function allFindings() {
  return page.data.checks.flatMap((each) => each.findings);
}

function findingsAt(episode, index) {
  if (!page.findingsOf) {
    page.findingsOf = new Map();
    for (const each of allFindings()) {
      const key = `${each.episode} ${each.token}`;
      page.findingsOf.set(key, [...(page.findingsOf.get(key) || []), each]);
    }
  }
  return page.findingsOf.get(`${episode.id} ${index}`) || [];
}

function checkStrip() {
  const { checks, alarms, notes } = page.data;
  if (!checks.length && !alarms.length && !notes.length) return null;
  return el("div", { class: "strip", role: "status", id: "checks" }, checks.length ? checkResults(checks) : null,
    alarms.length ? button(`${alarms.length} alarm${alarms.length > 1 ? "s" : ""}`, () => go({ view: "run" }), { class: "warn", id: "alarms" }) : null,
    notes.map((each) => el("span", { class: "soft note" }, each)));
}

function checkResults(checks) {
  const failing = checks.filter((each) => each.findings.length);
  const unchecked = checks.filter((each) => each.unchecked && !each.findings.length);
  const passing = checks.filter((each) => !each.findings.length && !each.unchecked);
  const rest = unchecked.map((each) => el("span", { class: "soft note" }, `not checked: ${each.check} (${each.unchecked})`));
  if (!failing.length) return [el("b", { class: "good" }, `✓ ${passing.length} checks pass`), el("span", { class: "soft" }, passing.map((each) => each.check).join(", ")), rest];
  return [el("b", { class: "bad" }, "Contradictions:"), failing.map((each) => button(`${each.check} ${each.findings.length}`, () => openFinding(each.findings[0]),
    { "data-check": each.check, class: "bad", title: `${each.findings[0].message} (expected: ${CHECK_WORDS[each.check]})` })), rest];
}

function openFinding(finding) {
  const token = finding.token === null || finding.token === undefined ? "" : String(finding.token);
  go({ view: "episodes", e: finding.episode, t: token, q: "", category: "", outcome: "", error: "", turn: "", reward: "" });
  if (token) showToken(token);
}

function drawRun() {
  return el("div", { class: "sheet" }, alarmBox(), checkTable(), categoryTable(), metricCards(), settingsTable(),
    page.data.notes.length ? el("section", { class: "card" }, el("h2", {}, "Notes"), el("ul", {}, page.data.notes.map((each) => el("li", {}, each)))) : null);
}

function alarmBox() {
  if (!page.data.alarms.length) return null;
  return el("section", { class: "card", id: "alarm-box" }, el("h2", {}, "Alarms"),
    table(["update", "alarm", "what it means", "examples"], page.data.alarms.map((each) => [
      String(each.update ?? ""), String(each.name ?? each.alarm ?? ""), String(each.message ?? each.text ?? ""),
      el("span", {}, (each.episodes || each.examples || []).flatMap((id) => [openLink(String(id)), " "]))])));
}

function checkTable() {
  if (!page.data.checks.length) return null;
  return el("section", { class: "card" }, el("h2", {}, "Checks of stored numbers"),
    table(["check", "what should hold", "found"], page.data.checks.map((each) => [
      each.check, CHECK_WORDS[each.check] || "",
      each.findings.length ? el("ul", { class: "calls" }, each.findings.slice(0, 12).map((finding) => el("li", {},
        button(`${finding.episode}${finding.token === null ? "" : ` token ${finding.token + 1}`}`, () => openFinding(finding)), ` ${finding.message}`))) : each.unchecked ? el("span", { class: "soft" }, `not checked: ${each.unchecked}`) : el("span", { class: "good" }, "✓")])));
}

function percent(part, whole) {
  return whole ? `${Number((100 * part / whole).toFixed(1))} %` : "–";
}

// Success where somebody judged; else what was earned, which says nothing of success.
function outcomeWords(count) {
  const of = (number) => number.toLocaleString("en");
  if (count.judged || !count.valid) return `${percent(count.success, count.judged)} of ${of(count.judged)} succeed`;
  return `mean reward ${number(count.return / count.valid)} of ${of(count.valid)}`;
}

// Every episode of the file by category, also those that are not shown, with what went wrong.
function categoryTable() {
  const rows = Object.entries(page.data.tally).map(([category, each]) => {
    const valid = each.episodes - each.invalid;
    const errors = Object.entries(each.errors).sort((one, other) => other[1] - one[1]);
    return [category || "–", String(each.episodes), String(each.invalid), percent(each.success, each.judged),
      each.judged_strictly ? percent(each.strict, valid) : "–", valid ? number(each.return / valid) : "–",
      el("span", {}, errors.slice(0, 12).map(([name, count]) => [chip(`${count} × ${name}`), " "]), errors.length > 12 ? `and ${errors.length - 12} more` : "")];
  });
  return el("section", { class: "card", id: "categories" }, el("h2", {}, "Categories"),
    table(["category", "episodes", "invalid", "success", "strictly", "mean return", "errors"], rows));
}

const CURVES = [
  "env/success_rate", "charts/episodic_return", "eval/greedy_success_rate", "eval/sampled_success_rate",
  "losses/entropy", "losses/explained_variance", "losses/approx_kl", "losses/clipfrac", "losses/policy_loss",
  "losses/value_loss", "env/parse_error_rate", "env/tool_error_rate", "env/truncated_rate", "env/invalid_rate", "tokens/action_length_mean",
];

function metricCards() {
  const names = distinct(page.data.metrics.flatMap(Object.keys));
  const ordered = [...CURVES.filter((each) => names.includes(each)), ...names.filter((each) => !CURVES.includes(each) && each !== "update")];
  const drawn = ordered.map((name) => [name, page.data.metrics.filter((each) => typeof each[name] === "number").map((each) => [each.update, each[name]])]).filter(([, points]) => points.length > 1);
  if (!drawn.length) return null;
  return el("section", {}, el("h2", {}, "Curves"), el("div", { class: "cards" }, drawn.slice(0, 36).map(([name, points]) => spark(name, points))));
}

function spark(name, points) {
  const values = points.map((each) => each[1]);
  const [low, high] = rangeOf(values), span = high - low || 1, updates = points[points.length - 1][0] - points[0][0] || 1;
  const drawn = points.map(([update, value]) => `${(200 * (update - points[0][0]) / updates).toFixed(1)},${(40 - 36 * (value - low) / span).toFixed(1)}`).join(" ");
  return el("div", { class: "card", "data-metric": name }, el("h3", {}, name), el("span", { class: "soft" }, `${number(values[0])} → ${number(values[values.length - 1])}`),
    svg("svg", { class: "spark", viewBox: "0 0 200 44", preserveAspectRatio: "none", role: "img", "aria-label": `${name} from ${number(values[0])} to ${number(values[values.length - 1])}` },
      svg("polyline", { points: drawn, fill: "none", stroke: "var(--accent)", "stroke-width": 2, "vector-effect": "non-scaling-stroke" })));
}

function settingsTable() {
  const settings = Object.entries({ ...page.data.config, ...page.data.header });
  if (!settings.length) return null;
  return el("section", { class: "card" }, el("details", {}, el("summary", {}, "Settings"),
    table(["setting", "value"], settings.map(([name, value]) => [el("code", {}, name), el("code", {}, JSON.stringify(value))]))));
}
