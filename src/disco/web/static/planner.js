// The planner, where htmx is not enough: sliders beside their fields, marks of wrong fields, what stays open.
"use strict";
(() => {
  const form = () => document.querySelector("#limits");
  const customers = () => Number(document.querySelector("#count")?.dataset.customers ?? 0);

  // ---- a slider and its field say the same: a number of customers, or a share where the field has one

  const share = (text) => /^\s*[\d.]+\s*%\s*$/.test(text);
  const amount = (text) => {
    if (share(text)) return (customers() * parseFloat(text)) / 100;
    const plain = text.replaceAll(",", "").trim();
    return /^\d+$/.test(plain) ? Number(plain) : text.trim() === "" ? customers() : null;
  };
  // about two hundred steps, each a round number
  const stepOf = (most) => {
    const raw = Math.max(most / 200, 1), power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((size) => size * power).find((size) => size >= raw) ?? 1;
  };
  // a share is also said as a number of customers
  const meant = (text) => (share(text) && customers() > 0 ? `= ${Math.floor(amount(text) + 1e-9).toLocaleString("en-GB")} customers` : "");
  const spoken = (slider, field) => {
    slider.setAttribute("aria-valuetext", field.value === "" ? "no limit" : `${field.value} ${meant(field.value)}`.trim());
    for (const place of document.querySelectorAll(`.means[data-limit="${field.id}"]`)) {
      place.textContent = share(field.value) ? `${field.value} ${meant(field.value)}` : "";
    }
  };
  const place = (slider) => {
    const field = document.getElementById(slider.dataset.limit), most = customers();
    slider.disabled = most === 0 || form().querySelector("fieldset.all").disabled;
    if (most === 0) return;
    slider.max = String(most);
    slider.step = "1";  // where a typed number stands; a dragged one is rounded below
    const value = amount(field.value);
    if (value !== null) slider.value = String(Math.min(value, most));
    spoken(slider, field);
  };
  const follow = (slider) => {
    const field = document.getElementById(slider.dataset.limit), most = customers(), value = Number(slider.value);
    const step = stepOf(most), whole = value >= most ? most : Math.round(value / step) * step;
    field.value = share(field.value)
      ? `${Math.min(100, Math.round((200 * value) / most) / 2)}%`
      : whole.toLocaleString("en-GB");
    spoken(slider, field);
  };
  const places = () => form()?.querySelectorAll(".slider").forEach(place);

  addEventListener("input", ({ target }) => {
    if (target.matches?.(".slider")) follow(target);
    else if (target.id) document.querySelectorAll(`.slider[data-limit="${CSS.escape(target.id)}"]`).forEach(place);
  });
  // what is typed to be added is no change of the plan
  addEventListener("change", (event) => {
    if (event.target.matches?.("[data-quiet]")) event.stopImmediatePropagation();
  }, true);
  // Enter in a field that adds something presses its button
  addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.target.matches?.("input[data-quiet]")) return;
    event.preventDefault();
    event.target.closest(".add").querySelector("button").click();
  });

  // ---- replies: colours, marks of wrong fields, and details that were open stay open

  const mark = () => {
    for (const one of document.querySelectorAll("[data-colour]")) one.style.setProperty("--colour", one.dataset.colour);
    for (const error of document.querySelectorAll("#limits .error[id$='-error']")) {
      const wrong = error.textContent.trim() !== "";
      const field = document.getElementById(error.id.slice(0, -"-error".length));
      if (field) wrong ? field.setAttribute("aria-invalid", "true") : field.removeAttribute("aria-invalid");
      field?.closest(".field")?.classList.toggle("wrong", wrong);
      if (wrong) error.closest("details")?.setAttribute("open", "");
    }
    places();
  };
  let open = new Set();
  addEventListener("htmx:beforeSwap", () => {
    open = new Set([...document.querySelectorAll("details[id][open]")].map((one) => one.id));
  });
  addEventListener("htmx:afterSettle", () => {
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    document.querySelector("#conflict")?.scrollIntoView({ block: "nearest" });
    mark();
  });

  // ---- saving: numbers that come meanwhile do not take the button from under the pointer, nor the job out of sight

  let pressed = false;  // until the request of the button is answered, also while it waits for a field's
  const inSaving = (element) => element?.closest?.("#saving");
  addEventListener("pointerdown", ({ target }) => { if (inSaving(target)) pressed = true; }, true);
  addEventListener("click", ({ target }) => { if (!inSaving(target)) pressed = false; }, true);
  addEventListener("submit", ({ target }) => { if (inSaving(target)) pressed = true; }, true);
  // one press of one revision is one job; a page that is shown again may save another revision
  addEventListener("htmx:configRequest", ({ detail }) => {
    if (detail.path.endsWith("/save")) detail.headers["Idempotency-Key"] += `-${detail.parameters.revision}`;
  });
  addEventListener("htmx:afterRequest", ({ detail }) => {
    if (detail.pathInfo?.requestPath?.endsWith("/save")) pressed = false;
  });
  addEventListener("htmx:oobBeforeSwap", (event) => {
    const { target, fragment } = event.detail;
    if (target.id !== "saving") return;
    const words = (element) => element.textContent.replace(/\s+/g, " ").trim();
    const isSame = words(target) === words(fragment);
    if (pressed || isSame || target.querySelector("[role=status]")) event.detail.shouldSwap = false;
  });

  // ---- the frontier: a click near a point presses its button

  const NEAR_PX = 24, FACTORS = [1, 1e-3, 1e-6, 1e-9];  // an axis counts in units, thousands, …
  const adoptable = () => {
    for (const box of document.querySelectorAll(".adoptable .canvas:not([data-clicks])")) {
      const chart = globalThis.echarts?.getInstanceByDom(box);
      if (!chart) continue;
      box.dataset.clicks = "";
      const axes = [chart.getOption().xAxis[0], chart.getOption().yAxis[0]];
      chart.getZr().on("click", ({ offsetX, offsetY }) => {
        const buttons = [...document.querySelectorAll("#points button[data-x]")];
        const raw = buttons.map((button) => [Number(button.dataset.x), Number(button.dataset.y)]);
        const factors = axes.map((axis, side) => {
          const most = Math.max(...raw.map((point) => point[side]));
          return FACTORS.find((factor) => most * factor <= axis.max * 1.05) ?? 1;
        });
        const away = raw.map(([x, y]) => {
          const [left, top] = chart.convertToPixel({ gridIndex: 0 }, [x * factors[0], y * factors[1]]);
          return Math.hypot(left - offsetX, top - offsetY);
        });
        const nearest = away.indexOf(Math.min(...away));
        if (away[nearest] <= NEAR_PX) buttons[nearest].click();
      });
    }
  };
  addEventListener("htmx:afterSettle", () => setTimeout(adoptable));
  addEventListener("load", () => setTimeout(adoptable));
  addEventListener("pageshow", () => mark());
  mark();
})();
