// Charts that fit their column, tables that sort and filter, data that downloads. Needs nothing but this file.
(() => {
  "use strict";
  const source = document.getElementById("data").textContent;
  const data = JSON.parse(source);
  const LEGEND_CELL = 150;

  // Draws at this inner width and says how wide it became with its labels.
  async function draw(box, inner) {
    const spec = structuredClone(data.charts[box.dataset.chart]);
    for (const part of spec.vconcat ?? [spec.spec ?? spec]) part.width = Math.max(120, Math.floor(inner));
    spec.config.legend.columns = Math.max(1, Math.floor(box.clientWidth / LEGEND_CELL));
    const options = { actions: false, renderer: "svg", tooltip: { disableDefaultStyle: true } };
    await window.vegaEmbed(box, spec, options);
    return Number(box.querySelector("svg").getAttribute("width"));
  }

  async function fit(box) {
    const room = box.clientWidth;
    if (!room || box.drawn === room) return;
    box.drawn = room;
    const guess = room - 120;
    const taken = await draw(box, guess);
    await draw(box, guess + room - taken - 1);
  }

  let waiting = 0;
  function fitAll() {
    clearTimeout(waiting);
    waiting = setTimeout(() => document.querySelectorAll("[data-chart]").forEach(fit), 120);
  }
  // What is in sight first, the rest one by one when nothing else is to do: a page of twenty charts opens at once.
  const later = window.requestIdleCallback ?? ((work) => setTimeout(work, 1));
  function drawRest(boxes) {
    if (boxes.length) later(() => fit(boxes[0]).finally(() => drawRest(boxes.slice(1))));
  }
  if (window.vegaEmbed) {
    const boxes = [...document.querySelectorAll("[data-chart]")];
    const seen = boxes.filter((box) => box.getBoundingClientRect().top < window.innerHeight);
    drawRest([...seen, ...boxes.filter((box) => !seen.includes(box))]);
    window.addEventListener("resize", fitAll);
  }

  function compare(a, b) {
    const [x, y] = [Number(a), Number(b)];
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en", { numeric: true }) : x - y;
  }

  function sort(header) {
    const table = header.closest("table");
    const body = table.tBodies[0];
    const up = header.getAttribute("aria-sort") !== "ascending";
    for (const other of header.parentNode.children) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const index = header.cellIndex;
    const value = (row) => row.cells[index].dataset.sort;
    const rows = [...body.rows].sort((one, two) => {
      const [a, b] = [value(one), value(two)];
      // What is not known stays at the end whichever way the rest turns.
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return up ? compare(a, b) : compare(b, a);
    });
    body.append(...rows);
  }
  for (const button of document.querySelectorAll("thead button")) {
    button.addEventListener("click", () => sort(button.closest("th")));
  }

  function unfold(table, whole) {
    const button = document.querySelector(`[data-unfold="${table.id}"]`);
    if (!button) return;
    table.closest(".scroll").classList.toggle("folded", !whole);
    button.setAttribute("aria-expanded", String(whole));
    button.textContent = whole ? "First rows only" : `All ${table.tBodies[0].rows.length} rows`;
  }
  for (const button of document.querySelectorAll("[data-unfold]")) {
    button.addEventListener("click", () => {
      unfold(document.getElementById(button.dataset.unfold), button.getAttribute("aria-expanded") !== "true");
    });
  }

  function filter(input) {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const table = document.getElementById(input.dataset.filter);
    const rows = [...table.tBodies[0].rows];
    if (words.length) unfold(table, true);
    for (const row of rows) {
      const text = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    const shown = rows.filter((row) => !row.hidden).length;
    const count = document.querySelector(`[data-count="${input.dataset.filter}"]`);
    count.value = words.length ? `${shown} of ${rows.length} rows` : "";
  }
  for (const input of document.querySelectorAll("[data-filter]")) {
    input.addEventListener("input", () => filter(input));
  }

  const files = {
    csv: ["cases.csv", "text/csv;charset=utf-8", data.csv],
    json: ["findings.json", "application/json", data.findings],
  };
  async function inflated(text) {
    if (!data.deflated) return text;
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  }
  async function download(kind) {
    const [name, type, kept] = files[kind];
    const text = await inflated(kept);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  for (const button of document.querySelectorAll("[data-download]")) {
    button.addEventListener("click", () => download(button.dataset.download));
  }

  // A link to something inside a closed box, or to the box, opens it.
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    const box = link && document.getElementById(link.getAttribute("href").slice(1))?.closest("details");
    if (box) box.open = true;
  });

  // Paper cannot be clicked: long tables open for the print and close again.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.long:not([open])")];
    for (const details of opened) details.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });
})();
