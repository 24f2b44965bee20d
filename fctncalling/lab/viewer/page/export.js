// Exports: a lane as SVG or PNG, an episode as JSON, its messages, the replay command, a link.
function save(name, type, content) {
  const link = el("a", { href: URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function messagesOf(episode) {
  const messages = [...(episode.opening.length ? episode.opening : episode.questions[0] || [])];
  for (const step of episode.steps) {
    messages.push({ role: "assistant", content: step.text });
    (step.results || []).forEach((result, index) => messages.push({ role: "tool", name: step.executed?.[index] ?? "", content: String(result) }));
    messages.push(...(step.messages || []));
  }
  return messages;
}

function exportable(episode) {
  return { ...episode, header: page.data.header };
}

function fileName(episode, ending) {
  return `${episode.id.replace(/[^\w.-]+/g, "_")}.${ending}`;
}

function exportButtons(episode) {
  return el("div", { class: "actions", role: "group", "aria-label": "Export" },
    episode.lanes ? [button("SVG", () => save(fileName(episode, "svg"), "image/svg+xml", laneSvg(episode)), { "data-export": "svg", title: "Lane of the chosen action, or of all" }),
      button("PNG", () => savePng(episode), { "data-export": "png" })] : null,
    button("JSON", () => save(fileName(episode, "json"), "application/json", JSON.stringify(exportable(episode), null, 1)), { "data-export": "json" }),
    button("Messages", () => save(fileName(episode, "messages.json"), "application/json", JSON.stringify(messagesOf(episode), null, 1)), { "data-export": "messages", title: "OpenAI messages" }),
    page.data.replay ? button("Copy replay", (event) => copy(event, page.data.replay), { "data-export": "replay", title: page.data.replay }) : null,
    button("Copy link", (event) => copy(event, location.href), { "data-export": "link" }));
}

async function copy(event, text) {
  const control = event.currentTarget, words = control.textContent;
  try { await navigator.clipboard.writeText(text); control.textContent = "Copied"; } catch { prompt("Copy:", text); }
  setTimeout(() => { control.textContent = words; }, 1200);
}

// A lane as a drawing of its own: boxes of text, in the page's colours as they are now.
function laneSvg(episode) {
  const [, words, kind] = MEASURES.find(([name]) => name === place.m) || MEASURES[0];
  const action = place.t === "" ? null : episode.tokens[Number(place.t)]?.action;
  const tokens = episode.tokens.filter((token) => action === null || token.action === action);
  const probe = document.body.appendChild(el("i"));
  const [paper, line, ink, soft, seq, pos, neg] = ["page", "line", "text", "soft", "seq", "pos", "neg"].map((name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  const parts = [], letter = 7.8, wide = 760;
  let x = 10, y = 44, last = tokens[0]?.action;
  for (const token of tokens) {
    const text = visibleText(pieceOf(episode.lanes.rows[token.row], token.at)).replace(/\n/g, "");
    const width = Math.max(1, [...text].length) * letter + 4;
    if (x + width > wide || token.action !== last) { x = 10; y += token.action !== last ? 34 : 26; last = token.action; }
    const share = strength(valueOf(episode, token, place.m), kind, episode.peak[place.m] || 0);
    const base = kind === "sequential" ? seq : share > 0 ? pos : neg;
    parts.push(svg("rect", { x, y: y - 15, width, height: 21, rx: 3, fill: base, "fill-opacity": Math.abs(share) < 0.01 ? 0 : 0.08 + 0.6 * Math.min(1, Math.abs(share)), stroke: line }),
      svg("text", { x: x + 2, y, "xml:space": "preserve", "font-family": "monospace", "font-size": 13, fill: ink, textLength: width - 4 }, text));
    x += width + 2;
  }
  const drawing = svg("svg", { xmlns: SVG, width: wide + 10, height: y + 20, viewBox: `0 0 ${wide + 10} ${y + 20}` },
    svg("rect", { width: "100%", height: "100%", fill: paper }),
    svg("text", { x: 10, y: 20, "font-family": "sans-serif", "font-size": 12, fill: soft }, `${episode.task} · ${words}`), parts);
  return new XMLSerializer().serializeToString(drawing);
}

function savePng(episode) {
  const image = new Image();
  image.onload = () => {
    const canvas = el("canvas", { width: 2 * image.width, height: 2 * image.height });
    const brush = canvas.getContext("2d");
    brush.scale(2, 2);
    brush.drawImage(image, 0, 0);
    canvas.toBlob((blob) => save(fileName(episode, "png"), "image/png", blob), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(laneSvg(episode))}`;
}
