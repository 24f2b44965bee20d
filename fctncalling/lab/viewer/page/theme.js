// Light and dark: the system's choice until the switch is used.
function theme() {
  return document.documentElement.dataset.theme;
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  const control = document.getElementById("theme");
  if (control) {
    control.textContent = name === "dark" ? "☀ Light" : "☾ Dark";
    control.setAttribute("aria-label", name === "dark" ? "Light colours" : "Dark colours");
  }
}

function startTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let kept = null;
  try { kept = localStorage.getItem("fctncalling-theme"); } catch { kept = null; }
  setTheme(kept || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", (event) => { if (!kept) setTheme(event.matches ? "dark" : "light"); });
}

function switchTheme() {
  setTheme(theme() === "dark" ? "light" : "dark");
  try { localStorage.setItem("fctncalling-theme", theme()); } catch { /* private windows forbid it */ }
}
