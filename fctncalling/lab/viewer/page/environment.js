// Environment column: calls as decoded, results, errors, state against the truth, turn by turn.
function callText(call) {
  if (typeof call === "string") return call;
  const parts = Object.entries(call.arguments || {}).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return `${call.name}(${parts.join(", ")})`;
}

function worldOfStep(step) {
  const calls = step.executed && step.executed.length ? step.executed : step.calls || [];
  const results = step.results || [];
  return el("div", { class: "step world" },
    el("h3", {}, calls.length ? `${calls.length} call${calls.length > 1 ? "s" : ""}` : "no call",
      step.error && step.error !== "no_call" ? chip(step.error, "warn") : null,
      step.reward ? chip(`reward ${number(step.reward)}`, step.reward > 0 ? "good" : "bad") : null),
    el("ul", { class: "calls" }, calls.map((call, index) => el("li", {}, callText(call),
      results[index] !== undefined ? el("div", { class: "result" }, String(results[index])) : null))),
    results.slice(calls.length).map((result) => el("div", { class: "result" }, String(result))));
}

// State of the tools at the end of a turn against the ground truth's.
function stateOfTurn(episode, turn) {
  const found = episode.environment.find((each) => each.turn === turn);
  if (!found) return null;
  const [rule, message] = found.fault || [];
  return el("div", { class: "state", "data-state": turn },
    rule ? el("div", { class: "bad" }, el("b", {}, rule), ` ${message}`) : el("div", { class: "good" }, found.truth.length ? "✓ as the truth: state and results" : "✓ no call expected"),
    found.truth.length ? el("div", {}, el("span", { class: "soft" }, "truth: "), el("code", {}, found.truth.join("  "))) : null,
    found.different.length ? table(["state", "found", "expected"], found.different.map((each) => [el("code", {}, each.name), el("code", {}, each.found), el("code", {}, each.expected)])) : null,
    found.changed.length ? el("details", {}, el("summary", {}, `${found.changed.length} changed in this turn`),
      table(["state", "before", "after"], found.changed.map((each) => [el("code", {}, each.name), el("code", {}, each.before), el("code", {}, each.after)]))) : null);
}

function truthBox(episode) {
  if (episode.environment.length || episode.truth === null || episode.truth === undefined) return null;
  return el("details", { class: "prompt" }, el("summary", {}, "ground truth"), el("pre", { class: "result" }, JSON.stringify(episode.truth, null, 1)));
}
