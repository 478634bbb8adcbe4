/* What pages do by themselves: progress as it comes, files that are dropped, choices that are sent at once. Nothing is made of
   texts but what the server made of them. */
"use strict";

function follow(element) {
  const events = new EventSource(element.dataset.events);
  events.addEventListener("part", (event) => {
    const focused = document.activeElement && element.contains(document.activeElement) ? document.activeElement.id : "";
    element.innerHTML = event.data;
    if (focused) document.getElementById(focused)?.focus();
    htmx.process(element);
  });
  events.addEventListener("end", () => { events.close(); document.removeEventListener("visibilitychange", leave); window.location.reload(); });
  const lost = document.getElementById("lost");
  events.addEventListener("error", () => { lost.hidden = false; });
  events.addEventListener("open", () => { lost.hidden = true; });
  /* a browser has six connections for a bench: a page that nobody sees gives its own back */
  const leave = () => {
    if (document.visibilityState !== "hidden") return;
    events.close();
    document.removeEventListener("visibilitychange", leave);
    document.addEventListener("visibilitychange", () => follow(element), { once: true });
  };
  document.addEventListener("visibilitychange", leave);
  window.addEventListener("pagehide", () => events.close(), { once: true });
}

function dropping(zone) {
  const input = zone.querySelector("input[type=file]");
  const over = (event) => { event.preventDefault(); zone.classList.add("over"); };
  zone.addEventListener("dragover", over);
  zone.addEventListener("dragenter", over);
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    input.files = event.dataTransfer.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });
  if (zone.dataset.send !== undefined) input.addEventListener("change", () => { if (input.files.length) input.form.requestSubmit(); });
}

function copying(button) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = button.dataset.copied;
  });
}

document.addEventListener("DOMContentLoaded", () => {
  document.documentElement.classList.add("js");
  document.querySelectorAll("[data-events]").forEach(follow);
  document.querySelectorAll(".drop").forEach(dropping);
  document.querySelectorAll("[data-copy]").forEach(copying);
});
document.addEventListener("htmx:afterSwap", (event) => {
  event.target.querySelectorAll("[data-copy]").forEach(copying);
});
document.addEventListener("htmx:sendError", () => { document.getElementById("lost").hidden = false; });
document.addEventListener("htmx:beforeSwap", (event) => {
  /* a refusal is shown where the answer would have been */
  if (event.detail.xhr.status >= 400) { event.detail.shouldSwap = true; event.detail.isError = false; }
});
document.addEventListener("change", (event) => {
  /* of two columns that play one part, the one that was changed last keeps it */
  if (event.target.matches("select.part")) event.target.form.elements.changed.value = event.target.dataset.place;
}, true);
document.addEventListener("submit", (event) => {
  /* one click is enough: a form that is sent again gets the same answer, and the button says so */
  const button = event.submitter;
  if (button && !event.target.hasAttribute("hx-post")) setTimeout(() => { button.setAttribute("aria-disabled", "true"); }, 0);
});
window.addEventListener("pageshow", () => {
  document.querySelectorAll("[aria-disabled]").forEach((button) => button.removeAttribute("aria-disabled"));
});
