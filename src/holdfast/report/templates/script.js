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
  // Sections: all at once, and the one that a link leads to.
  const folds = [...document.querySelectorAll("details.fold")];
  const unfold = document.getElementById("unfold");
  if (unfold && folds.length) {
    const say = () => { unfold.textContent = folds.every((fold) => fold.open) ? "Close all" : "Open all"; };
    unfold.addEventListener("click", () => {
      const open = !folds.every((fold) => fold.open);
      folds.forEach((fold) => { fold.open = open; });
    });
    folds.forEach((fold) => fold.addEventListener("toggle", say));
    unfold.hidden = false;
    say();
  }
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let item = target; item; item = item.parentElement) if (item.tagName === "DETAILS") item.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  addEventListener("click", (event) => {  // a link to where one is already changes no hash
    const link = event.target.closest("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) reveal();
  });
  reveal();
  // Paper cannot unfold anything; what heads of columns mean stands below, too.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open], [name])")];
    closed.forEach((item) => { item.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((item) => { item.open = false; }));
})();
