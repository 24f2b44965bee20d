// Lambda behind a token: one for all, or with --lam auto its own.
function lambdaAt(episode, index) {
  const { lam } = page.data.header;
  return lam === null ? episode.lanes.numbers.lam[index] : lam;
}

// Credit algebra: the recursion of a chosen token, with the numbers put in.
function recursion(episode, index, name) {
  const { gamma, gamma_token: gammaToken, lam_token: lamToken } = page.data.header;
  const lam = lambdaAt(episode, index);
  const ends = episode.tokens[index].ends;
  const inside = { TPPO: [gammaToken, lamToken], POAD: [1, lam], NTPO: [gamma, lam] }[name];
  return ends ? { g: gamma, l: lam, ends } : { g: inside[0], l: inside[1], ends };
}

// One step of token-level GAE: what the formula says with stored values and the next advantage.
function tokenStep(episode, index, name) {
  const { rewards, values } = episode.lanes.numbers;
  const credit = episode.lanes.credit[name];
  const { g, l, ends } = recursion(episode, index, name);
  const part = partOf(episode, index);
  const last = index + 1 >= part.end;
  const next = last ? part.bootstrap : values[index + 1];
  const later = last ? 0 : credit[index + 1];
  const delta = rewards[index] + g * next - values[index];
  return { r: rewards[index], V: values[index], next, later, g, l, delta, A: delta + g * l * later, last, ends };
}

function tokenAlgebra(episode, index, name) {
  const s = tokenStep(episode, index, name);
  const nextName = s.last ? (episode.terminated ? "V′ (ended)" : "V′ (bootstrap)") : "V′";
  const why = s.ends ? "the action ends here: γ and λ apply" : "inside an action";
  return [
    line(`δ = r + γ·${nextName} − V = ${number(s.r)} + ${number(s.g)}·${bracket(s.next)} − ${bracket(s.V)} = `, number(s.delta, 6)),
    line(`A = δ + γ·λ·A′ = ${number(s.delta)} + ${number(s.g)}·${number(s.l)}·${bracket(s.later)} = `, number(s.A, 6)),
    line(`target = A + V = ${bracket(s.A)} + ${bracket(s.V)} = `, number(s.A + s.V, 6)),
    el("span", { class: "soft" }, `${name}: ${why} (γ ${number(s.g)}, λ ${number(s.l)})`),
  ];
}

// APPO: actions are the steps of time; its value is read at the first token of each.
function actionStep(episode, index) {
  const { rewards, values } = episode.lanes.numbers;
  const action = episode.tokens[index].action;
  const own = episode.tokens.filter((token) => token.action === action);
  const part = partOf(episode, index);
  const next = episode.tokens.find((token) => token.action === action + 1 && token.index < part.end);
  const r = own.reduce((sum, token) => sum + rewards[token.index], 0);
  const V = values[own[0].index];
  const after = next ? values[next.index] : part.bootstrap;
  const later = next ? episode.lanes.credit.APPO[next.index] : 0;
  const { gamma: g } = page.data.header;
  const l = lambdaAt(episode, own[own.length - 1].index);
  const delta = r + g * after - V;
  return { r, V, next: after, later, g, l, delta, A: delta + g * l * later };
}

function actionAlgebra(episode, index) {
  const s = actionStep(episode, index);
  return [
    line(`δ = r + γ·V′ − V = ${number(s.r)} + ${number(s.g)}·${bracket(s.next)} − ${bracket(s.V)} = `, number(s.delta, 6)),
    line(`A = δ + γ·λ·A′ = ${number(s.delta)} + ${number(s.g)}·${number(s.l)}·${bracket(s.later)} = `, number(s.A, 6)),
    el("span", { class: "soft" }, "APPO: one value, one advantage for the whole action"),
  ];
}

function groupAlgebra(episode, index) {
  const outcome = episode.lanes.numbers.returns;
  const peers = page.data.members.filter((each) => each.group === episode.group && each.learned !== false);
  const A = episode.lanes.credit.GRPO[index];
  const own = page.data.algorithm === "GRPO" && outcome ? number(outcome[index]) : "outcome";
  const others = `${peers.length} episode${peers.length === 1 ? "" : "s"} of this task and seed`;
  if (peers.length < 2) return [line("A = outcome − mean of its group = ", "0"), el("span", { class: "soft" }, `GRPO: ${others}, nothing to compare with`)];
  const divided = page.data.header.group_std ? ") / deviation" : ")";
  return [
    line(`A = (${own} − mean of its group${divided} = `, number(A, 6)),
    el("span", { class: "soft" }, `GRPO: ${others}, returns ${peers.map((each) => number(each.return)).join(", ")}`),
  ];
}

// What a group baseline (--group_baseline) makes of the algorithm's estimate.
const BASELINES = {
  leave_one_out: ["less the others' mean", leaveOneOutLines],
  state: ["matched by state", stateLines],
};

function creditTitle(name) {
  if (name === page.data.algorithm || name !== page.data.credit) return name;
  return `${page.data.algorithm}, ${name in BASELINES ? BASELINES[name][0] : name}`;
}

function baselineAlgebra(episode, index, name) {
  if (!(name in BASELINES)) return [line(`A by ${name} = `, number(episode.lanes.credit[name][index], 6))];
  const token = episode.tokens[index], terms = episode.lanes.terms[token.action];
  if (!terms) return [el("span", { class: "soft" }, "the environment names no states: the estimate as it is"), algebraOf(episode, index, page.data.algorithm)];
  const first = page.data.algorithm === "APPO"; // the action's first token stands for it
  const at = first ? episode.tokens.findIndex((each) => each.action === token.action) : index;
  return BASELINES[name][1](terms, { episode, token, plain: episode.lanes.credit[page.data.algorithm][at], value: episode.lanes.numbers.values[at] });
}

function leaveOneOutLines([mean], { plain }) {
  return [
    line(`A = A_${page.data.algorithm} − b = ${number(plain)} − ${bracket(mean)} = `, number(plain - mean, 6)),
    el("span", { class: "soft" }, "b: mean first advantage of the task's other episodes"),
  ];
}

function stateLines([r, before, numBefore, behind, numBehind], { episode, token }) {
  const g = page.data.header.gamma;
  const isLast = !episode.tokens.some((each) => each.action === token.action + 1);
  const alone = !isLast ? "what this episode earned from there: no other came there" : episode.terminated ? "the episode ended" : "bootstrap: the episode was cut off";
  const seen = (count, otherwise) => count ? `mean return of ${count} other episode${count === 1 ? "" : "s"} from the same state` : otherwise;
  return [
    line(`A = r + γ·V(s′) − V(s) = ${number(r)} + ${number(g)}·${bracket(behind)} − ${bracket(before)} = `, number(r + g * behind - before, 6)),
    el("span", { class: "soft" }, `V(s): ${seen(numBefore, "the critic's value: no other was there")}`),
    el("span", { class: "soft" }, `V(s′): ${seen(numBehind, alone)}`),
    el("span", { class: "soft" }, `${page.data.algorithm}'s own estimate trains the critic alone`),
  ];
}

function algebraOf(episode, index, name) {
  if (!episode.lanes.credit[name]) return [el("span", { class: "soft" }, `${name}: ${missingCredit(episode, name)}`)];
  if (name !== page.data.algorithm && name === page.data.credit) return baselineAlgebra(episode, index, name);
  if (name === "GRPO") return groupAlgebra(episode, index);
  return name === "APPO" ? actionAlgebra(episode, index) : tokenAlgebra(episode, index, name);
}

function whiteningLine(episode, index) {
  const { whitening_mean: mean, whitening_std: deviation } = page.data.header;
  const raw = episode.lanes.numbers.raw_advantages?.[index];
  if (mean === null || raw === null || raw === undefined) return null;
  return line(`in the loss: (A − mean) / deviation = (${number(raw)} − ${bracket(mean)}) / ${number(deviation)} = `, number((raw - mean) / deviation, 6));
}

function line(text, result) {
  return el("div", {}, text, el("b", {}, result));
}

function bracket(value) {
  return value < 0 ? `(${number(value)})` : number(value);
}

function showDetail(episode) {
  const panel = document.getElementById("detail");
  const token = episode && place.view === "episodes" && place.t !== "" ? episode.tokens[Number(place.t)] : null;
  panel.hidden = !token;
  if (!token) { panelHeight(0); return; }
  const numbers = episode.lanes.numbers;
  const text = pieceOf(episode.lanes.rows[token.row], token.at);
  const own = page.data.credit;
  const others = Object.keys(episode.lanes.credit).filter((name) => name !== own);
  const found = findingsAt(episode, token.index);
  panel.replaceChildren(
    el("header", {}, el("code", {}, JSON.stringify(text)), chip(`id ${token.id}`), chip(`token ${token.index + 1} · action ${token.step + 1}`),
      chip(maskReason(episode, token)), found.map((each) => chip(`${each.check}: ${each.message}`, "bad")),
      button("Close", () => go({ t: "" }, true), { class: "close", "aria-label": "Close the token's details" })),
    el("div", { class: "cols" },
      el("div", {}, el("h3", {}, creditTitle(own)), el("div", { class: "algebra", "data-algebra": own },
        numbers.rewards && numbers.rewards[token.index] !== null ? [algebraOf(episode, token.index, own), whiteningLine(episode, token.index)] : `not learned from: ${episode.reason || "no numbers stored"}`),
        el("div", { class: "fields" }, measuresOf(episode).filter(([name]) => name in numbers).map(([name, words]) =>
          el("span", {}, `${words} `, el("b", { "data-field": name }, number(numbers[name][token.index], 6)))),
        el("span", {}, clipWords(episode.lanes.clipped[token.index])))),
      el("div", { class: "algebra others" }, others.map((name) => [el("h3", {}, name), el("div", { "data-algebra": name }, algebraOf(episode, token.index, name))]))));
  panelHeight(panel.offsetHeight);
}

// The page can be scrolled past the panel, and what is scrolled to stays above it.
function panelHeight(pixels) {
  document.documentElement.style.setProperty("--detail", `${pixels}px`);
}
