// The index: rows that fit the search and the choices; kept when the rows are replaced.
(() => {
  const rows = document.getElementById("rows");
  if (!rows) return;
  const search = document.getElementById("search");
  const selects = [...document.querySelectorAll("[data-filter]")];
  const count = document.getElementById("count");
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows.rows) {
      const text = row.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word))
        && selects.every((select) => !select.value || row.dataset[select.dataset.filter] === select.value);
      row.hidden = !fits;
      shown += fits;
    }
    count.textContent = shown === rows.rows.length ? `${shown} runs` : `${shown} of ${rows.rows.length} runs`;
    if (rows.rows.length === 1) count.textContent = count.textContent.replace("runs", "run");
    document.getElementById("none").hidden = shown > 0;
  };
  search.addEventListener("input", filter);
  selects.forEach((select) => select.addEventListener("change", filter));
  rows.addEventListener("replaced", filter);
  filter();
})();
