// Draws every chart of the page from the JSON beside it, and again whenever its width changes or htmx brings a new one.
"use strict";
(() => {
  // An axis's formatter comes as parts: "−£5k", "£0", "+10%". A template of ECharts could neither put the sign before
  // the currency nor leave the magnitude off a zero.
  const tick = ({ names, prefix = "", magnitude = "", suffix = "", signed = false }) => (value) => {
    if (names) return names[value] ?? "";
    const sign = value < 0 ? "−" : value > 0 && signed ? "+" : "";
    const digits = Math.abs(value).toLocaleString("en-GB", { maximumFractionDigits: 10 });
    return sign + prefix + digits + (value === 0 ? "" : magnitude) + suffix;
  };
  let drawn = [];
  // Colours and heights stand in data attributes: a page whose policy allows no style in its text shows them, too.
  const draw = (root) => {
    for (const mark of root.querySelectorAll("[data-colour]")) mark.style.setProperty("--colour", mark.dataset.colour);
    drawn = drawn.filter((chart) => chart.getDom().isConnected || chart.dispose());
    for (const box of root.querySelectorAll(".chart:not(:has(> .canvas))")) {
      const option = JSON.parse(box.querySelector('script[type="application/json"]').textContent);
      for (const axis of [option.xAxis, option.yAxis].flat()) {
        if (axis.axisLabel?.formatter) axis.axisLabel.formatter = tick(axis.axisLabel.formatter);
      }
      box.style.height = `${box.dataset.height}px`;
      const canvas = document.createElement("div");
      canvas.className = "canvas";
      box.append(canvas);
      const chart = echarts.init(canvas, null, { renderer: "svg" });
      chart.setOption(option);
      new ResizeObserver(() => chart.isDisposed() || chart.resize()).observe(canvas);
      drawn.push(chart);
    }
  };
  draw(document);
  addEventListener("htmx:load", (event) => draw(event.target)); // a part of a page that was replaced
  // paper is laid out at once, before any observer is asked; 680 px is an A4 page between its margins
  addEventListener("beforeprint", () => drawn.forEach((chart) => chart.resize({ width: 680 })));
  addEventListener("afterprint", () => drawn.forEach((chart) => chart.resize({ width: "auto" })));
})();
