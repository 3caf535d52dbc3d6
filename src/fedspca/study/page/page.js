"use strict";
// The key is kept for this tab alone; what comes from the server is markup in which every text was escaped.
const KEY = "fedspca-key";

function tell(words, bad) {
  const said = document.getElementById("said");
  said.textContent = words;
  said.classList.toggle("bad", Boolean(bad));
  clearTimeout(tell.later);
  if (!bad) tell.later = setTimeout(() => { said.textContent = ""; }, 15000); // it would lie over what comes after
}

async function enter() {
  const token = location.hash.slice(1);
  history.replaceState(null, "", "/");
  if (token) {
    const answer = await fetch("/enter", { method: "POST", body: token });
    if (answer.ok) sessionStorage.setItem(KEY, await answer.text());
    else if (!sessionStorage.getItem(KEY)) throw new Error(await answer.text());
  }
  if (!sessionStorage.getItem(KEY)) throw new Error("This page is opened by a command: fedspca site open, or fedspca study open.");
}

function post(path, body) {
  return fetch(path, { method: "POST", body, headers: { authorization: "Bearer " + sessionStorage.getItem(KEY) } });
}

function show(parts) {
  const main = document.getElementById("main");
  const opening = document.getElementById("opening");
  if (opening) opening.remove();
  const trouble = document.getElementById("trouble");
  trouble.hidden = !("trouble" in parts);
  if ("trouble" in parts) trouble.textContent = parts.trouble;
  for (const [name, markup] of Object.entries(parts)) {
    if (name === "trouble") continue;
    let part = document.getElementById(name);
    if (!part) {
      part = document.createElement("section");
      part.id = name;
      main.append(part);
    }
    const open = [...part.querySelectorAll("details[open]")].map((one) => one.id);
    const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
    const typed = Object.fromEntries([...part.querySelectorAll("input")].map((i) => [i.id, [i.value, i.checked]]));
    part.innerHTML = markup;
    part.hidden = !markup;
    for (const id of open) if (id && document.getElementById(id)) document.getElementById(id).open = true;
    for (const [id, [value, checked]] of Object.entries(typed)) {
      const input = document.getElementById(id);
      if (input) { input.value = value; input.checked = checked; }
    }
    if (focused && document.getElementById(focused)) document.getElementById(focused).focus();
  }
}

async function follow() {
  const answer = await post("/happening");
  if (!answer.ok) {
    sessionStorage.removeItem(KEY);
    throw new Error(await answer.text());
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    waiting += value;
    const events = waiting.split("\n\n");
    waiting = events.pop();
    for (const event of events) if (event.startsWith("data: ")) show(JSON.parse(event.slice(6)));
  }
}

async function run() {
  try {
    await enter();
    await follow();
    throw new Error("The command that serves this page has ended. The study has not.");
  } catch (error) {
    const trouble = document.getElementById("trouble");
    const lost = error instanceof TypeError; // of fetch: nobody answers
    trouble.textContent = lost ? "The command that serves this page has ended. The study has not." : error.message;
    trouble.hidden = false;
    const opening = document.getElementById("opening");
    if (opening) opening.remove();
  }
}

document.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const given = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const answer = await post("/act/" + form.dataset.action, JSON.stringify(given));
    const said = await answer.json();
    tell(said.error || said.done, Boolean(said.error));
  } catch {
    tell("Nobody answers: has the command that serves this page ended?", true);
  }
  button.disabled = false;
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-document]");
  if (!button) return;
  const opened = window.open("about:blank"); // at once, while the browser knows that a person asked for it
  const answer = await post("/link/" + button.dataset.document);
  if (opened && answer.ok) opened.location = await answer.text();
});

run();
