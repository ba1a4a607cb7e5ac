// What htmx does not do by itself: buttons that send nothing but themselves.
"use strict";
(() => {
  const cookie = (name) => document.cookie.split("; ").find((part) => part.startsWith(`${name}=`))?.slice(name.length + 1);
  addEventListener("click", async (event) => {
    const button = event.target.closest("[data-post]");
    if (!button) return;
    const answer = await fetch(button.dataset.post, { method: "POST", headers: { "X-CSRF-Token": cookie("disco_csrf") ?? "" } });
    if (answer.ok || answer.status === 401) location.assign(button.dataset.then);
  });
})();
