// Images side by side: one row for each, drawn page by page from the data of the page; what is chosen stands in the address.
(() => {
  const source = document.getElementById("data");
  if (!source || !document.getElementById("images")) return;
  const data = JSON.parse(source.textContent);
  const PER_PAGE = 20;
  const place = (tag, parent, text = "", name = "") => {
    const node = document.createElement(tag);
    if (text) node.textContent = text;
    if (name) node.className = name;
    parent.append(node);
    return node;
  };

  // What is chosen, from the address and back into it
  const given = new URLSearchParams(location.hash.slice(1));
  const chosen = { measure: 0, sort: "", order: "", find: "", outcome: "", kept: "", off: "", page: 1 };
  for (const key of Object.keys(chosen)) if (given.has(key)) chosen[key] = given.get(key);
  chosen.measure = Math.min(Math.max(0, Number(chosen.measure) || 0), Math.max(0, data.measures.length - 1));
  chosen.page = Number(chosen.page) || 1;
  const remember = () => {
    const told = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value && value !== 1));
    history.replaceState(null, "", `#${told}`);
  };
  const measure = () => data.measures[chosen.measure];
  const off = () => new Set(chosen.off.split(".").filter(Boolean).map(Number));
  const columns = () => data.encoders.map((_, column) => column).filter((column) => !off().has(column));

  // Values: numbers, "∞", or null where an image was not examined
  const value = (column, row) => {
    const values = measure() && measure().values[column];
    const given = values ? values[row] : null;
    return given === "∞" ? Infinity : given === undefined ? null : given;
  };
  const known = (row) => columns().map((column) => value(column, row)).filter((one) => one !== null);
  const written = (number) => {
    if (number === null) return "–";
    if (number === Infinity) return "never broken";
    const scaled = number * measure().times;
    const text = scaled === 0 || Math.abs(scaled) >= 1000 ? String(Math.round(scaled)) : String(Number(scaled.toPrecision(3)));
    return text.replace("-", "−") + measure().after;
  };
  const broken = (number) => {
    const breaks = measure().breaks;
    return breaks.above ? number > breaks.at : number <= breaks.at;
  };
  const spread = (row) => {
    const all = known(row);
    if (all.length < 2) return null;
    const [low, high] = [Math.min(...all), Math.max(...all)];
    return low === high ? 0 : high - low;
  };
  const mean = (row) => {
    const all = known(row);
    return all.length ? all.reduce((sum, one) => sum + one, 0) / all.length : null;
  };

  // Which rows are shown, and in which order
  const fits = {
    "": () => true,
    all: (row) => known(row).length > 0 && known(row).every(broken),
    some: (row) => known(row).some(broken),
    apart: (row) => known(row).some(broken) && !known(row).every(broken),
    none: (row) => known(row).length > 0 && !known(row).some(broken),
  };
  const pictured = (row) => data.attacked[row] || data.clean[row];
  const rank = () => {
    if (chosen.sort === "disagreement") return spread;
    if (chosen.sort === "mean") return mean;
    if (/^\d+$/.test(chosen.sort)) return (row) => value(Number(chosen.sort), row);
    return null;
  };
  const rows = () => {
    const words = chosen.find.toLowerCase();
    const outcome = measure() && measure().breaks ? fits[chosen.outcome] || fits[""] : fits[""];
    const all = data.ids.map((_, row) => row).filter((row) =>
      (!words || data.ids[row].toLowerCase().includes(words)) && (!chosen.kept || pictured(row)) && outcome(row));
    const sign = chosen.order === "down" ? -1 : 1;
    if (chosen.sort === "id") return all.sort((a, b) => sign * data.ids[a].localeCompare(data.ids[b], undefined, { numeric: true }));
    const by = rank();
    if (!by) return sign > 0 ? all : all.reverse();
    const keys = new Map(all.map((row) => [row, by(row)]));
    return all.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      if (x === null || y === null) return (x === null) - (y === null);  // what has no value stays last
      return x === y ? a - b : sign * (x < y ? -1 : 1);
    });
  };

  // One image: as it is, and what each encoder makes of it
  const picture = (parent, address, words, caption) => {
    const figure = place("figure", parent, "", "shot");
    const say = (text) => place("p", figure, text, "unstored");
    if (address) {
      const image = place("img", figure);
      image.alt = words;
      image.title = words;
      image.loading = "lazy";
      image.addEventListener("load", () => image.classList.toggle("pixelated", image.naturalWidth <= 96));
      image.addEventListener("error", () => { image.remove(); figure.prepend(say("cannot be read: gone, damaged, or of another round")); });
      image.src = address;
    } else say("no picture stored");
    place("figcaption", figure, caption);
    return figure;
  };
  const cell = (parent, column, row, largest) => {
    const box = place("div", parent, "", "answer");
    const head = place("p", box, "", "who");
    place("span", head, data.encoders[column].name, "name").title = data.encoders[column].whole;
    const number = value(column, row);
    const line = place("p", box, "", "told");
    place("span", line, written(number), "number");
    if (number !== null && measure().breaks) {
      const is = broken(number);
      place("span", line, measure().breaks.words[is ? 0 : 1], `outcome ${is ? "bad" : "good"}`);
    }
    const bar = place("div", box, "", "bar");
    bar.setAttribute("aria-hidden", "true");
    if (number !== null && number >= 0 && largest > 0) {
      const inside = place("i", bar);
      inside.style.width = `${Math.min(100, 100 * (number === Infinity ? 1 : number / largest))}%`;
      inside.style.setProperty("--c", `var(--s${column % 8})`);
    }
    const kept = (data.attacked[row] || []).filter((one) => one[0] === column);
    if (!kept.length) place("p", box, "no attacked picture stored", "unstored");
    for (const [, what, attacked, difference, rival, rivalPicture] of kept) {
      const shots = place("div", box, "", "shots");
      picture(shots, attacked, `${data.ids[row]}: ${what}`, "attacked");
      picture(shots, difference, `${data.ids[row]}: the change, amplified`, "change");
      if (rival !== null) picture(shots, rivalPicture, `${rival}, which it is taken for`, rival === data.ids[row] ? "still itself" : `taken for ${rival}`);
      place("p", box, what, "note");
    }
  };
  const draw = () => {
    remember();
    const list = document.getElementById("images");
    list.replaceChildren();
    const all = rows();
    const pages = Math.max(1, Math.ceil(all.length / PER_PAGE));
    chosen.page = Math.min(Math.max(1, chosen.page), pages);
    let largest = 0;
    if (measure()) for (const column of columns()) for (const one of measure().values[column] || []) if (typeof one === "number" && one > largest) largest = one;
    for (const row of all.slice((chosen.page - 1) * PER_PAGE, chosen.page * PER_PAGE)) {
      const article = place("article", list, "", "image");
      const own = place("div", article, "", "own");
      place("h3", own, data.ids[row], "name");
      picture(own, data.clean[row], data.ids[row], "clean");
      const gap = measure() ? spread(row) : null;
      if (gap) place("p", own, gap === Infinity ? "some encoders never break" : `encoders differ by ${written(gap)}`, "note");
      const answers = place("div", article, "", "sides");
      if (measure()) for (const column of columns()) cell(answers, column, row, largest);
    }
    if (!all.length) place("p", list, "No image fits. Clear the search, or choose “all”.", "note");
    for (const id of ["pager", "pager-below"]) pager(document.getElementById(id), all.length, pages);
    const better = { lower: "↓ lower is better", higher: "↑ higher is better" }[measure() && measure().better] || "";
    document.getElementById("about").textContent = measure()
      ? `${measure().title}, ${better}. ${measure().question} Encoders differ by the largest value less the smallest.` : "";
  };
  const pager = (bar, count, pages) => {
    bar.replaceChildren();
    const go = (words, page, text) => {
      const button = place("button", bar, text);
      button.type = "button";
      button.setAttribute("aria-label", words);
      button.disabled = page < 1 || page > pages || page === chosen.page;
      button.addEventListener("click", () => {
        chosen.page = page;
        draw();
        if (bar.id === "pager-below") document.getElementById("pager").scrollIntoView();
      });
    };
    go("First page", 1, "«");
    go("Previous page", chosen.page - 1, "‹");
    const label = place("label", bar, "page ");
    const input = place("input", label);
    Object.assign(input, { type: "number", min: 1, max: pages, value: chosen.page });
    input.addEventListener("change", () => { chosen.page = Number(input.value) || 1; draw(); });
    place("span", bar, `of ${pages}`);
    go("Next page", chosen.page + 1, "›");
    go("Last page", pages, "»");
    place("span", bar, count === 1 ? "1 image" : `${count.toLocaleString("en")} images`, "note");
  };

  // The controls
  const controls = document.getElementById("controls");
  const labelled = (words, node) => {
    const label = place("label", controls, `${words} `);
    label.append(node);
    return label;
  };
  const select = (words, key, options) => {
    const node = document.createElement("select");
    for (const [text, choice] of options) node.add(new Option(text, choice, false, String(choice) === String(chosen[key])));
    node.addEventListener("change", () => { chosen[key] = key === "measure" ? Number(node.value) : node.value; chosen.page = 1; update(); });
    return labelled(words, node);
  };
  const find = document.createElement("input");
  Object.assign(find, { type: "search", value: chosen.find, placeholder: "part of an id", autocomplete: "off" });
  find.addEventListener("input", () => { chosen.find = find.value; chosen.page = 1; draw(); });
  labelled("find", find);
  select("measure", "measure", data.measures.map((m, place) => [m.title, place]));
  const sorts = [["the audit", ""], ["id", "id"], ["disagreement", "disagreement"], ["mean of encoders", "mean"]];
  select("sort by", "sort", [...sorts, ...data.encoders.map((encoder, column) => [encoder.name, column])]);
  select("from", "order", [["smallest", ""], ["largest", "down"]]);
  const outcomes = select("images that are", "outcome", [["all", ""]]);
  select("pictures", "kept", [["all images", ""], ["only with pictures", "yes"]]);
  const update = () => {
    const node = outcomes.querySelector("select");
    const breaks = measure() && measure().breaks;
    outcomes.hidden = !breaks;
    if (breaks) {
      const [bad, good] = breaks.words;
      const options = [["all", ""], [`${bad} for all encoders`, "all"], [`${bad} for some encoder`, "some"], ["apart: some break, some hold", "apart"], [`${good} for all encoders`, "none"]];
      node.replaceChildren(...options.map(([text, choice]) => new Option(text, choice, false, choice === chosen.outcome)));
    }
    draw();
  };
  const boxes = document.getElementById("columns");
  boxes.hidden = data.encoders.length < 2;
  data.encoders.forEach((encoder, column) => {
    const label = place("label", boxes);
    const box = place("input", label);
    Object.assign(box, { type: "checkbox", checked: !off().has(column) });
    place("span", label, encoder.name, "name");
    box.addEventListener("change", () => {
      const hidden = off();
      if (box.checked) hidden.delete(column); else hidden.add(column);
      chosen.off = [...hidden].join(".");
      draw();
    });
  });
  update();
})();
