// Checks, alarms, curves and settings of the run.
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
  return el("span", { class: "facts", role: "status", id: "checks" }, checks.length ? checkResults(checks) : null,
    alarms.length ? button(`${alarms.length} alarm${alarms.length > 1 ? "s" : ""}`, () => go({ view: "run" }), { class: "warn", id: "alarms" }) : null,
    notes.map((each) => el("span", { class: "soft note" }, each)));
}

function checkResults(checks) {
  const failing = checks.filter((each) => each.findings.length);
  const unchecked = checks.filter((each) => each.unchecked && !each.findings.length);
  const passing = checks.filter((each) => !each.findings.length && !each.unchecked);
  const rest = unchecked.map((each) => el("span", { class: "soft note" }, `not checked: ${each.check} (${each.unchecked})`));
  if (!failing.length) return [el("b", { class: "good", title: passing.map((each) => each.check).join(", ") }, `✓ ${passing.length} checks pass`), rest];
  return [el("b", { class: "bad" }, "Contradictions:"), failing.map((each) => button(`${each.check} ${each.findings.length}`, () => openFinding(each.findings[0]),
    { "data-check": each.check, class: "bad", title: `${each.findings[0].message} (expected: ${each.holds})` })), rest];
}

function openFinding(finding) {
  const token = finding.token === null || finding.token === undefined ? "" : String(finding.token);
  go({ view: "episodes", e: finding.episode, t: token, q: "", category: "", outcome: "", error: "", turn: "", reward: "" });
  if (token) showToken(token);
}

function drawRun() {
  return el("div", { class: "sheet" }, alarmBox(), categoryTable(), families(), metricCards(), checkTable(), settingsTable(),
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
      each.check, each.holds,
      each.findings.length ? el("ul", { class: "calls" }, each.findings.slice(0, 12).map((finding) => el("li", {},
        button(`${finding.episode}${finding.token === null ? "" : ` token ${finding.token + 1}`}`, () => openFinding(finding)), ` ${finding.message}`))) : each.unchecked ? el("span", { class: "soft" }, `not checked: ${each.unchecked}`) : el("span", { class: "good" }, "✓")])));
}

function bar(part, whole, text = percent(part, whole)) {
  const share = whole ? Math.max(0, Math.min(1, part / whole)) : 0;
  return el("span", { class: "barred" }, el("span", { class: "rate", role: "img", "aria-label": text }, el("i", { style: `width:${100 * share}%` })), ` ${text}`);
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
    return [category || "–", String(each.episodes), String(each.invalid), bar(each.success, each.judged),
      each.judged_strictly ? percent(each.strict, valid) : "–", valid ? number(each.return / valid) : "–",
      el("span", {}, errors.slice(0, 12).map(([name, count]) => [chip(`${count} × ${name}`), " "]), errors.length > 12 ? `and ${errors.length - 12} more` : "")];
  });
  return el("section", { class: "card", id: "categories" }, el("h2", {}, "Categories"),
    table(["category", "episodes", "invalid", "success", "strictly", "mean return", "errors"], rows));
}

// Metrics of one name and a number: [name, title, what is numbered, what a bar is, its text].
const FAMILIES = [
  ["env/success_by_left/", "Success by start place", "calls of the truth left", "Share of success of the episodes that began so many calls before the end (--starts prefix).", (share) => percent(share, 1)],
  ["critic/monte_carlo_explained_variance/turn_", "What the critic knows, by turn", "turn", "Explained variance of what was earned: 1 knows it, 0 knows its mean alone, below 0 misleads."],
  ["critic_fit/explained_variance/turn_", "What the critic knew after its fit, by turn", "turn", "The same, of held-out episodes before the first update."],
];

function families() {
  return FAMILIES.map(([prefix, title, numbered, words, shown = (value) => number(value, 3)]) => {
    const names = distinct(page.data.metrics.flatMap(Object.keys)).filter((each) => each.startsWith(prefix));
    const rows = names.map((name) => [Number(name.slice(prefix.length)), page.data.metrics.filter((each) => typeof each[name] === "number").map((each) => [each.update, each[name]])]);
    const written = rows.filter(([, points]) => points.length).sort(([one], [other]) => one - other);
    return written.length ? el("section", { class: "card", "data-family": prefix }, el("h2", {}, title), el("p", { class: "soft" }, words),
      table([numbered, "last update", "first → last"], written.map(([at, points]) => {
        const [first, last] = [points[0][1], points[points.length - 1][1]];
        return [String(at), bar(last, 1, shown(last)), `${shown(first)} → ${shown(last)} (${points.length} update${points.length > 1 ? "s" : ""})`];
      }))) : null;
  });
}

const CURVES = [
  "env/success_rate", "charts/episodic_return", "eval/greedy_success_rate", "eval/sampled_success_rate",
  "losses/entropy", "losses/explained_variance", "losses/approx_kl", "losses/clipfrac", "losses/policy_loss",
  "losses/value_loss", "env/parse_error_rate", "env/tool_error_rate", "env/truncated_rate", "env/invalid_rate", "tokens/action_length_mean",
];

function metricCards() {
  const names = distinct(page.data.metrics.flatMap(Object.keys));
  const ordered = [...CURVES.filter((each) => names.includes(each)), ...names.filter((each) => !CURVES.includes(each) && each !== "update" && each !== "sft/step" && each.split("/").length < 3)];
  const drawn = ordered.map((name) => [name, page.data.metrics.filter((each) => typeof each[name] === "number").map((each) => [each["sft/step"] ?? each.update, each[name]])]).filter(([, points]) => points.length > 1);
  if (!drawn.length) return null;
  return el("section", {}, el("h2", {}, "Curves"), el("div", { class: "cards" }, drawn.slice(0, 36).map(([name, points]) => spark(name, points))));
}

function spark(name, points) {
  const values = points.map((each) => each[1]);
  const [low, high] = rangeOf(values), span = high - low || 1, updates = points[points.length - 1][0] - points[0][0] || 1;
  const drawn = points.map(([update, value]) => `${(200 * (update - points[0][0]) / updates).toFixed(1)},${(40 - 36 * (value - low) / span).toFixed(1)}`).join(" ");
  return el("div", { class: "card", "data-metric": name }, el("h3", {}, path(name)), el("span", { class: "soft" }, `${number(values[0])} → ${number(values[values.length - 1])}`),
    svg("svg", { class: "spark", viewBox: "0 0 200 44", preserveAspectRatio: "none", role: "img", "aria-label": `${name} from ${number(values[0])} to ${number(values[values.length - 1])}` },
      svg("polyline", { points: drawn, fill: "none", stroke: "var(--accent)", "stroke-width": 2, "vector-effect": "non-scaling-stroke" })));
}

function settingsTable() {
  const settings = Object.entries({ ...page.data.config, ...page.data.header });
  if (!settings.length) return null;
  return el("section", { class: "card" }, el("details", {}, el("summary", {}, "Settings"),
    table(["setting", "value"], settings.map(([name, value]) => [el("code", {}, name), el("code", {}, JSON.stringify(value))]))));
}
