// Tables whose heads sort them: buttons, so that keys and screen readers can; rows without a number stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const given = (row, column) => row.cells[column].dataset.sort;
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    const text = column === 0 || button.dataset.kind === "text";
    button.disabled = false;
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const usual = button.dataset.better === "↑" ? "descending" : "ascending";  // the best first
      const other = usual === "ascending" ? "descending" : "ascending";
      const order = before === usual ? other : usual;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const compare = (a, b) => {
        const [x, y] = [given(a, column), given(b, column)];
        if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
        return sign * (text ? x.localeCompare(y) : Number(x) - Number(y));
      };
      body.append(...[...body.rows].sort(compare));
    });
  });
}
