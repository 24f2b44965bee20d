// Measures of a token, their wording and their colours.
const MEASURES = [
  ["advantages", "advantage in the loss", "diverging"],
  ["raw_advantages", "advantage before whitening", "diverging"],
  ["delta", "one-step difference δ", "diverging"],
  ["values", "value V before the token", "sequential"],
  ["returns", "target of the critic", "sequential"],
  ["rewards", "reward", "diverging"],
  ["ratio", "probability ratio", "ratio"],
  ["clipped", "clip state", "clip"],
  ["entropy", "entropy", "sequential"],
  ["mismatch", "trainer − sampler log-probability", "diverging"],
  ["new_logprobs", "log-probability after", "sequential"],
  ["old_logprobs", "log-probability before", "sequential"],
  ["rollout_logprobs", "log-probability as sampled", "sequential"],
  ["kl", "divergence from the reference", "diverging"],
  ["mask", "mask: what is trained", "mask"],
];

function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value); // NaN and infinities are texts
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size < 1e-3 || size >= 1e5 ? value.toExponential(2) : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
}

// Smallest and largest number; as arguments of Math.max, 125,000 numbers are too many.
function rangeOf(numbers) {
  let low = Infinity, top = -Infinity;
  for (const each of numbers) {
    if (each < low) low = each;
    if (each > top) top = each;
  }
  return [low, top];
}

function largestSize(numbers) {
  return numbers.reduce((largest, each) => Math.max(largest, Math.abs(each ?? 0)), 0);
}

function measuresOf(episode) {
  if (!episode.lanes) return [];
  const known = episode.lanes.numbers;
  return MEASURES.filter(([name]) => name in known || name === "mask" || (name === "clipped" && "ratio" in known));
}

function valueOf(episode, token, measure) {
  if (measure === "mask") return episode.lanes.in_loss[token.index];
  if (measure === "clipped") return episode.lanes.clipped[token.index];
  const numbers = episode.lanes.numbers[measure];
  return numbers ? numbers[token.index] : null;
}

// Share of full colour from -1 to 1; zero is the page's own background.
function strength(value, kind, peak) {
  if (value === null || value === undefined) return 0;
  if (kind === "ratio") return Math.max(-1, Math.min(1, Math.log(Math.max(value, 1e-6)) / 0.3));
  if (kind === "clip") return value;
  if (kind === "mask") return value ? 0.5 : 0;
  return peak > 0 ? value / peak : 0;
}

function colour(share, kind) {
  if (Math.abs(share) < 0.01) return "";
  const base = kind === "sequential" ? "--seq" : share > 0 ? "--pos" : "--neg";
  const percent = Math.round(8 + 60 * Math.min(1, Math.abs(share)));
  return `color-mix(in srgb, var(${base}) ${percent}%, var(--page))`;
}

function maskReason(episode, token) {
  if (episode.lanes.in_loss[token.index]) return "sampled, in the loss";
  if (episode.learned === false) return `sampled, not learned from: ${episode.reason || "left out"}`;
  if (page.data.algorithm === "APPO" && !token.first) return "sampled; APPO counts an action at its first token";
  return "sampled, not in the loss (cut action)";
}

function clipWords(state) {
  if (state > 0) return "clipped above: no gradient";
  if (state < 0) return "clipped below: no gradient";
  return "not clipped";
}
