// What htmx does not do by itself: the door, files that are sent, messages that outlive a page, secrets to copy.
"use strict";
(() => {
  const cookie = (name) => document.cookie.split("; ").find((part) => part.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
  const changes = () => ({ "X-CSRF-Token": cookie("disco_csrf") });

  // ---- what was done, in a sentence: the reply's event `said` (HX-Trigger), also where it leads to another page
  const KEPT = "disco said", KEPT_MS = 4000;
  const say = (text) => {
    const place = document.getElementById("said");
    if (!place) return;
    const line = document.createElement("p");
    line.className = "note";
    line.textContent = text;
    place.replaceChildren(line);
  };
  document.addEventListener("said", (event) => {
    const text = event.detail.value;
    say(text);
    sessionStorage.setItem(KEPT, text);
    setTimeout(() => sessionStorage.removeItem(KEPT), KEPT_MS); // by then another page has shown it, if one was to
  });
  const kept = sessionStorage.getItem(KEPT);
  sessionStorage.removeItem(KEPT);
  if (kept) say(kept);

  // ---- errors beside fields: the first one is where the keyboard goes
  document.addEventListener("htmx:afterSettle", (event) => {
    event.detail.elt.querySelector?.("[aria-invalid=true]")?.focus();
  });
  document.addEventListener("htmx:sendError", () => say("The server cannot be reached. Try again."));

  // ---- buttons that send nothing but themselves, and secrets to copy
  addEventListener("click", async (event) => {
    const button = event.target.closest("[data-post], [data-copy]");
    if (!button) return;
    if (button.dataset.copy) {
      await navigator.clipboard?.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
      return;
    }
    const answer = await fetch(button.dataset.post, { method: "POST", headers: changes() });
    if (answer.ok || answer.status === 401) location.assign(button.dataset.then);
  });

  // ---- the door: a form as JSON; its refusal stands beside the field, and what was typed stays
  const refuse = (form, text) => {
    const place = form.querySelector(".error");
    place.textContent = text;
    place.hidden = !text;
    const field = form.querySelector(`[aria-describedby~="${place.id}"]`);
    if (text) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
    field.closest(".field").classList.toggle("wrong", Boolean(text));
    if (text) field.select();
  };
  const sentence = async (answer) => {
    try {
      return (await answer.json()).detail;
    } catch {
      return `The server answered ${answer.status}. Try again in a moment.`;
    }
  };
  addEventListener("submit", async (event) => {
    const form = event.target.closest("form[data-json]");
    if (!form) return;
    event.preventDefault();
    const body = {}, button = form.querySelector("button");
    for (const [name, value] of new FormData(form)) if (value !== "") body[name] = value;
    if ("token" in form.dataset) body.token = location.hash.slice(1); // behind the #, where no server's log sees it
    button.disabled = true;
    refuse(form, "");
    try {
      const headers = { "Content-Type": "application/json" };
      const answer = await fetch(form.dataset.json, { method: "POST", headers, body: JSON.stringify(body) });
      if (answer.ok) location.assign(form.dataset.then);
      else refuse(form, await sentence(answer));
    } catch {
      refuse(form, "The server cannot be reached. Try again.");
    } finally {
      button.disabled = false;
    }
  });

  // ---- files: sent as they are (data-upload: where to, data-method: PUT unless it says otherwise, data-said: what is
  // said once it has arrived), with how much of them has been sent
  const COLUMNS = { column: "Column", row: "First row", rows: "Rows", found: "Found", expected: "Expected", fix: "What to do" };
  const show = (form, found) => { // what is wrong with a file, row by row
    const place = form.querySelector(".wrong-rows");
    if (!place) return;
    const table = document.createElement("table"), names = Object.keys(COLUMNS);
    const heads = table.createTHead().insertRow(), rows = table.createTBody();
    for (const name of names) heads.append(Object.assign(document.createElement("th"), { textContent: COLUMNS[name], scope: "col" }));
    for (const one of found.slice(0, 200)) {
      const row = rows.insertRow();
      for (const name of names) {
        const cell = row.insertCell();
        cell.textContent = one[name] ?? "–";
        cell.dataset.label = COLUMNS[name];
      }
    }
    place.className = "wrong-rows list";
    place.replaceChildren(...(found.length ? [table] : []));
  };
  addEventListener("change", async (event) => { // the names of the columns of a CSV file, for the fields that ask for them
    const names = event.target.closest("form[data-names]")?.dataset.names, file = event.target.files?.[0];
    if (!names || !file || !/\.csv$/i.test(file.name)) return;
    const head = (await file.slice(0, 65536).text()).replace(/^\ufeff/, "").split(/\r?\n/)[0];
    const mark = [",", ";", "|", "\t"].sort((a, b) => head.split(b).length - head.split(a).length)[0];
    const options = head.split(mark).map((name) => Object.assign(document.createElement("option"), { value: name.replace(/^"|"$/g, "").trim() }));
    document.getElementById(names)?.replaceChildren(...options);
  });
  const TYPES = { csv: "text/csv", parquet: "application/vnd.apache.parquet" };
  addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-upload]");
    if (!form) return;
    event.preventDefault();
    const file = form.querySelector("input[type=file]").files[0], button = form.querySelector("button");
    const type = TYPES[file?.name.split(".").pop().toLowerCase()];
    if (!file) return refuse(form, "Choose a file first.");
    if (!type) return refuse(form, `${file.name} is neither a .csv nor a .parquet file. Choose one of these.`);
    const bar = form.querySelector("progress"), words = form.querySelector(".sent");
    const request = new XMLHttpRequest();
    const ended = (text) => {
      button.disabled = false;
      bar.hidden = true;
      words.textContent = "";
      refuse(form, text);
    };
    request.upload.addEventListener("progress", (sent) => {
      bar.value = sent.loaded / sent.total;
      words.textContent = sent.loaded < sent.total ? `${Math.round(100 * bar.value)}% sent` : "All sent; the rows are being checked.";
    });
    request.addEventListener("error", () => ended("The server cannot be reached. Try again."));
    request.addEventListener("load", () => {
      if (request.status < 300) {
        sessionStorage.setItem(KEPT, form.dataset.said || `${file.name} was received.`);
        location.reload();
        return;
      }
      let found = [], text = `The server answered ${request.status}, so nothing was changed.`;
      try {
        const problem = JSON.parse(request.responseText);
        found = problem.errors ?? [];
        text = found.length ? problem.detail.split("\n")[0].replace(/:$/, "; what is wrong stands below.") : problem.detail;
      } catch { /* not JSON: a proxy has answered */ }
      ended(text);
      show(form, found);
    });
    request.open(form.dataset.method || "PUT", form.dataset.upload);
    for (const [name, value] of Object.entries({ ...changes(), "Content-Type": type })) request.setRequestHeader(name, value);
    show(form, []);
    button.disabled = true;
    bar.hidden = false;
    bar.value = 0;
    refuse(form, "");
    request.send(file);
  });
})();
