// Pictures of one image, large: by a click on them or by their button; arrows go on, Escape closes.
(() => {
  const articles = [...document.querySelectorAll("article.worst")].filter((item) => item.querySelector(".trio .large img"));
  if (!articles.length || typeof HTMLDialogElement === "undefined") return;
  const dialog = document.createElement("dialog");
  dialog.className = "lightbox";
  const [title, frames, bar] = ["p", "div", "p"].map((tag) => document.createElement(tag));
  title.id = "lightbox-title";
  dialog.setAttribute("aria-labelledby", title.id);
  frames.className = "frames";
  let current = null;
  const show = (article) => {
    current = article;
    title.replaceChildren(...[...article.querySelector("p").childNodes].map((node) => node.cloneNode(true)));
    frames.replaceChildren(...[...article.querySelectorAll(".shot.large")].map((shot) => {
      const large = shot.cloneNode(true);
      large.className = "shot huge";
      return large;
    }));
    if (!dialog.open) dialog.showModal();
  };
  const go = (by) => {
    const shown = [...current.parentElement.querySelectorAll("article.worst:not([hidden])")];
    show(shown[(shown.indexOf(current) + by + shown.length) % shown.length]);
  };
  for (const [text, words, act] of [["←", "Previous", () => go(-1)], ["→", "Next", () => go(1)], ["Close", "Close", () => dialog.close()]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.setAttribute("aria-label", words);
    button.addEventListener("click", act);
    bar.append(button);
  }
  dialog.append(title, frames, bar);
  dialog.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) { event.preventDefault(); go(by); }
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  for (const article of articles) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "enlarge";
    button.textContent = "Enlarge";
    button.setAttribute("aria-label", `Enlarge ${article.querySelector("b")?.textContent ?? "pictures"}`);
    button.addEventListener("click", () => show(article));
    article.querySelector(".shots").append(button);
    article.querySelectorAll(".shot.large").forEach((shot) => shot.addEventListener("click", () => show(article)));
  }
})();
