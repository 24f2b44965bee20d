// One episode: head, value curve, conversation with token lanes and the environment beside them.
function drawEpisode(episode) {
  if (!episode) return el("article", {}, el("p", { class: "empty" }, "No episode fits these filters."));
  return el("article", { "data-episode": episode.id },
    episodeHead(episode), verdictBox(episode), valueCurve(episode), episode.lanes ? toolbar(episode) : null,
    turnsOf(episode), truthBox(episode),
    episode.environment_note ? el("p", { class: "soft" }, episode.environment_note) : null);
}

// Words by the verdicts, colour by the return: what the policy was paid for.
function outcomeOf(episode) {
  if (episode.invalid) return ["invalid", "warn"];
  if (episode.learned === false) return ["left out", "warn"];
  if (episode.success === null) return ["not judged", ""];
  const words = !episode.success ? "failure" : episode.strict === false ? "fails strictly" : "success";
  const paid = (episode.return ?? Number(episode.success)) > 0;
  return [words, !paid ? "bad" : words === "success" ? "good" : "warn"];
}

function errorOf(episode) {
  return episode.error_type || episode.strict_error_type;
}

function episodeHead(episode) {
  const [outcome, kind] = outcomeOf(episode);
  return el("div", { class: "head" }, el("h2", {}, episode.task), chip(outcome, kind), chip(episode.category),
    chip(`return ${number(episode.return)}`), episode.truncated ? chip("truncated", "warn") : null,
    episode.num_cut ? chip(`${episode.num_cut} cut action${episode.num_cut > 1 ? "s" : ""}`, "warn") : null,
    episode.success && episode.strict === false ? chip("official verdict: valid") : null,
    chip(episode.id), exportButtons(episode));
}

function verdictBox(episode) {
  if (episode.reason) return el("p", { class: "verdict" }, el("b", {}, "left out of the update: "), episode.reason);
  if (episode.success && episode.strict === false) return strictBox(episode);
  if (episode.success) return null;
  if (!episode.error_type && !episode.message) return null;
  return el("p", { class: "verdict" }, el("b", {}, episode.error_type || "failed"), ` ${episode.message}`);
}

// The rule that an officially valid answer breaks; logs of older versions do not name it.
function strictBox(episode) {
  const rule = episode.strict_error_type || "not valid by the strict verdict";
  return el("p", { class: "verdict", "data-strict": rule }, el("b", {}, rule), ` ${episode.strict_message}`,
    el("span", { class: "soft" }, ` BFCL forgives it; the return is ${number(episode.return)}.`));
}

function toolbar(episode) {
  const measures = measuresOf(episode);
  if (!measures.some(([name]) => name === place.m)) place.m = measures[0][0];
  return el("div", { class: "toolbar", role: "toolbar", "aria-label": "Token lanes" },
    el("label", {}, "Colour", el("select", { id: "measure", onchange: (event) => go({ m: event.target.value }, true) },
      measures.map(([name, words]) => el("option", { value: name, selected: name === place.m }, words)))),
    scaleLegend(episode),
    page.data.algorithm ? button("Compare algorithms", () => go({ compare: place.compare ? "" : "1" }, true), { "aria-pressed": String(Boolean(place.compare)), id: "compare" }) : null);
}

function turnsOf(episode) {
  const turns = [];
  let current = null;
  episode.steps.forEach((step, index) => {
    if (!current || current.turn !== (step.turn ?? 0)) {
      current = { turn: step.turn ?? 0, steps: [], said: saidBefore(episode, index, step.turn ?? 0) };
      turns.push(current);
    }
    current.steps.push([index, step]);
  });
  if (!turns.length) return [el("p", { class: "empty" }, "The policy said nothing in this episode.")];
  return turns.map((turn) => drawTurn(episode, turn));
}

// Messages as logged; where a log has none (answers by tool calls), the task's own.
function saidBefore(episode, index, turn) {
  const logged = index ? episode.steps[index - 1].messages || [] : episode.opening;
  return logged.length ? logged : episode.questions[turn] || [];
}

function drawTurn(episode, turn) {
  const passed = episode.per_turn[turn.turn];
  return el("section", { class: "turn", id: `turn-${turn.turn}`, "aria-label": `turn ${turn.turn + 1}` },
    el("header", {}, el("h3", {}, `Turn ${turn.turn + 1}`),
      passed === undefined ? null : turn.turn === episode.strict_turn ? chip("passes, not strictly", "warn") : chip(passed ? "passes" : "fails", passed ? "good" : "bad"),
      el("div", { class: "said" }, turn.said.map((message) => el("p", {}, el("span", { class: "soft" }, `${message.role}: `), String(message.content ?? ""))))),
    el("div", { class: "grid" }, turn.steps.flatMap(([index, step]) => [modelOfStep(episode, index, step), worldOfStep(step)])),
    stateOfTurn(episode, turn.turn));
}

function modelOfStep(episode, index, step) {
  const tokens = episode.tokens.filter((token) => token.step === index);
  if (!tokens.length) {
    return el("div", { class: "step" }, el("h3", {}, actionWords(index, step)), thoughtOf(step), el("div", { class: "lane" }, el("span", { class: "tok" }, visibleText(step.text) || "(empty)")));
  }
  return el("div", { class: "step" }, contextBefore(episode, tokens[0], index),
    el("h3", {}, `${actionWords(index, step)} · ${tokens.length} tokens`), thoughtOf(step), actionLane(episode, tokens), place.compare ? comparedLanes(episode, tokens) : null,
    index === episode.steps.length - 1 ? contextAfter(episode, tokens[tokens.length - 1]) : null);
}

// What the model thought, apart from what it said; its tokens are in the lane, and trained.
function thoughtOf(step) {
  return step.thought ? el("details", { class: "thought" }, el("summary", {}, "thought"), el("p", { class: "soft" }, step.thought)) : null;
}

function actionWords(index, step) {
  return `action ${index + 1}${step.role ? ` · ${step.role}` : ""}${step.credit ? ` · ${creditWords(step.credit)}` : ""}`;
}

// Of a graded run: branched truth, and in brackets what critic and estimator said.
function creditWords({ V, A, standard_error: error, critic, TPPO }) {
  return `true V ${number(V, 2)} (critic ${number(critic, 2)}) · true A ${number(A, 2)} ± ${number(error, 1)} (TPPO ${number(TPPO, 2)})`;
}

// What the policy was shown since its action before: tool results, users, the template's own.
function contextBefore(episode, token, index) {
  const row = episode.lanes.rows[token.row];
  const before = episode.tokens[token.index - 1];
  const sameRow = before && before.row === token.row;
  const first = sameRow ? before.at + 1 : token.row ? row.shared : 0;
  return first < token.at ? contextLane(row, first, token.at, index ? "shown to the model" : "prompt") : null;
}

function contextAfter(episode, token) {
  const row = episode.lanes.rows[token.row];
  return token.at + 1 < row.ids.length ? contextLane(row, token.at + 1, row.ids.length, "after the last action") : null;
}

function chooseToken(episode, index, algorithm = "") {
  go({ e: episode.id, t: String(index) }, true);
  showToken(index, "nearest", algorithm);
}

function showToken(index, block = "center", algorithm = "") {
  const compared = algorithm && document.querySelector(`[data-compared="${index}"][data-algorithm="${algorithm}"]`);
  const box = compared || document.querySelector(`[data-token="${index}"]`);
  if (!box) return;
  for (let part = box.parentElement; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  box.scrollIntoView({ block });
  box.focus({ preventScroll: true });
}
