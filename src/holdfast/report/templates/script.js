"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${isDark() ? "light" : "dark"} theme`);
  };
  const remember = (theme) => {
    try { localStorage.setItem("holdfast-theme", theme); } catch { /* a browser may forbid it for local files */ }
  };
  try {
    const kept = localStorage.getItem("holdfast-theme");
    if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  } catch { /* then the system's theme holds */ }
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    label();
  });
  system.addEventListener("change", label);
  button.hidden = false;
  label();
  // Paper cannot unfold anything.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((item) => { item.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((item) => { item.open = false; }));
})();
