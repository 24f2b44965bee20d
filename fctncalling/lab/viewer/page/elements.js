// Elements of the page. Texts are set as text, never as markup: tools may write anything.
const SVG = "http://www.w3.org/2000/svg";

function el(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const each of children.flat(3)) if (each !== null && each !== undefined && each !== false) node.append(each);
  return node;
}

function chip(text, kind = "", title = null) {
  return el("span", { class: `chip ${kind}`, title }, text);
}

function select(label, name, options) {
  const list = el("select", {
    "aria-label": label, title: label, "data-filter": name,
    onchange: (event) => go({ [name]: event.target.value }, true),
  }, options.map(([value, text]) => el("option", { value, selected: place[name] === value }, text)));
  return list;
}

function button(text, onclick, properties = {}) {
  return el("button", { type: "button", onclick, ...properties }, text);
}

function table(head, rows) {
  return el("div", { class: "wide" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map((each) => el("th", { scope: "col" }, each)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, index) =>
      el("td", { "data-head": head[index] }, cell)))))));
}
