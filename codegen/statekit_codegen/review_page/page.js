
"use strict";
// Sorting and filtering of the tables of decisions. Without it all rows are there, in order.

/** The number that a cell is sorted by, or its text. */
function key(row, column) {
  const text = row.cells[column].dataset.sort;
  return /^\d+$/.test(text) ? Number(text) : text;
}

/** Order of two keys: figures first, by size; then words, by letter; "~" is behind all. */
function compare(a, b) {
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Headers become buttons: up, down, and back to the order of the schema. */
function sortable(table) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const first = header.classList.contains("figure") ? "descending" : "ascending";
      const second = first === "ascending" ? "descending" : "ascending";
      const state = header.getAttribute("aria-sort");
      const next = state === null ? first : state === first ? second : null;
      headers.forEach((other) => other.removeAttribute("aria-sort"));
      const ordered = [...rows];
      if (next !== null) {
        header.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        ordered.sort((a, b) => {
          const [one, two] = [key(a, column), key(b, column)];
          if ((one === "~") !== (two === "~")) return one === "~" ? 1 : -1;
          return sign * compare(one, two);
        });
      }
      body.append(...ordered);
    });
  });
}

/** The form above a table hides the rows that do not fit; on paper all of them are there. */
function filterable(form, table, none) {
  const rows = [...table.tBodies[0].rows];
  const words = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const { text, bucket, device, changed } = form.elements;
  const output = form.querySelector("output");
  const apply = () => {
    const asked = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits =
        asked.every((word) => words.get(row).includes(word)) &&
        (!bucket.value || row.dataset.bucket === bucket.value) &&
        (!device.value || row.dataset.device === device.value) &&
        (!changed || !changed.checked || row.dataset.change !== "");
      row.classList.toggle("out", !fits);
      shown += fits ? 1 : 0;
    }
    none.hidden = shown > 0;
    output.textContent = `${shown} of ${rows.length} values`;
  };
  for (const event of ["input", "change"]) form.addEventListener(event, apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("button").addEventListener("click", () => {
    form.reset();
    apply();
  });
  form.hidden = false;
  apply();
}

for (const box of document.querySelectorAll(".decisions")) {
  const table = box.querySelector("table");
  filterable(box.querySelector("form"), table, box.querySelector(".none"));
  sortable(table);
}
