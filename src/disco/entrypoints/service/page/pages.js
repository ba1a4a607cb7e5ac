// Sends a form as JSON; shows the sentence of a refusal. The token of an invitation stands behind the #.
const form = document.getElementById("form");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = {};
  for (const [name, value] of new FormData(form)) if (value !== "") body[name] = value;
  if (form.dataset.to === "invitations/accept") body.token = location.hash.slice(1);
  const answer = await fetch(form.dataset.to, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (answer.ok) location.assign(form.dataset.then);
  else document.getElementById("said").textContent = (await answer.json()).detail;
});
