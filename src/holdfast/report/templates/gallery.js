// Pictures: shown of one encoder alone, and sorted, by controls of the page itself.
for (const gallery of document.querySelectorAll(".gallery")) {
  const items = [...gallery.querySelectorAll("[data-encoder]")];
  const names = [...new Set(items.map((item) => item.dataset.encoder))];
  const bar = document.createElement("p");
  bar.className = "controls";
  const choice = (words, options, act) => {
    const label = document.createElement("label");
    const select = document.createElement("select");
    options.forEach((text, place) => select.add(new Option(text, place)));
    select.addEventListener("change", () => act(select.selectedIndex));
    label.append(`${words} `, select);
    bar.append(label);
  };
  if (names.length > 1) {
    choice("of", ["all encoders", ...names], (place) => {
      items.forEach((item) => { item.hidden = place > 0 && item.dataset.encoder !== names[place - 1]; });
    });
  }
  if (items.some((item) => item.dataset.sort !== undefined)) {
    const value = (item) => Number(item.dataset.sort);  // NaN, last, for what has none
    choice("sorted", ["as given", "smallest first", "largest first"], (place) => {
      const sign = [0, 1, -1][place];
      const compare = (a, b) => {
        const [x, y] = [value(a), value(b)];
        return Number.isNaN(x) || Number.isNaN(y) ? Number.isNaN(x) - Number.isNaN(y) : sign * (x - y);
      };
      gallery.append(...(sign ? [...items].sort(compare) : items));
    });
  }
  if (bar.childElementCount) gallery.before(bar);
}
