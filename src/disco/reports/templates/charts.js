// Draws every chart of the page from the JSON beside it, and again whenever its width changes.
"use strict";
(() => {
  const drawn = [];
  for (const box of document.querySelectorAll(".chart")) {
    const option = JSON.parse(box.querySelector('script[type="application/json"]').textContent);
    const canvas = document.createElement("div");
    canvas.className = "canvas";
    box.append(canvas);
    const chart = echarts.init(canvas, null, { renderer: "svg" });
    chart.setOption(option);
    new ResizeObserver(() => chart.resize()).observe(canvas);
    drawn.push(chart);
  }
  // paper is laid out at once, before any observer is asked; 680 px is an A4 page between its margins
  addEventListener("beforeprint", () => drawn.forEach((chart) => chart.resize({ width: 680 })));
  addEventListener("afterprint", () => drawn.forEach((chart) => chart.resize({ width: "auto" })));
})();
