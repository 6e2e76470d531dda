// A form is sent once, however often its button is pressed.
"use strict";
document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-once]")) return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "1";
  setTimeout(() => { for (const button of event.target.querySelectorAll("button")) button.disabled = true; });
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("[data-once]")) {
    delete form.dataset.sent;
    for (const button of form.querySelectorAll("button")) button.disabled = false;
  }
});
