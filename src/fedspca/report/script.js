"use strict";
// Tables sort by a click or a key on a heading; what is pointed at says its name. Without script all is still there.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const body = head.closest("table").tBodies[0];
    const column = head.cellIndex;
    const upward = head.getAttribute("aria-sort") === "descending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", upward ? "ascending" : "descending");
    const key = (row) => {
      const cell = row.cells[column];
      return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
    };
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      return typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
    };
    const rows = [...body.rows].sort((a, b) => (upward ? order(a, b) : order(b, a)));
    body.append(...rows);
  });
}
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true");
document.body.append(tip);
const show = (event) => {
  const owner = event.target.closest ? event.target.closest(".chart path[aria-label]") : null;
  tip.hidden = owner === null;
  if (owner === null) return;
  tip.textContent = owner.getAttribute("aria-label");
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max(4, event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 8 : event.clientY + 16) + "px";
};
document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
// A chart is saved as it is seen: the colours of the page take the place of their names.
for (const figure of document.querySelectorAll("figure[data-name]")) {
  const button = document.createElement("button");
  button.className = "save";
  button.type = "button";
  button.textContent = "Save as SVG";
  button.addEventListener("click", () => {
    const colours = getComputedStyle(document.documentElement);
    const drawn = figure.querySelector("svg").cloneNode(true);
    drawn.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    const text = new XMLSerializer().serializeToString(drawn).replace(/var\((--[a-z]+)\)/g, (_, name) => colours.getPropertyValue(name).trim());
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    link.download = figure.dataset.name + ".svg";
    link.click();
  });
  figure.append(button);
}
