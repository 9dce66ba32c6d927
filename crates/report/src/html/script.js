"use strict";
// Adds to a page that is complete without it: a crosshair shared by the charts over time, arrow keys, and
// legend buttons that hide a series.
(() => {
  const svgNs = "http://www.w3.org/2000/svg";
  document.documentElement.classList.add("live");

  document.querySelectorAll(".legend").forEach((legend) => {
    legend.querySelectorAll("button").forEach((button, at) => {
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        legend.closest("figure").querySelectorAll(`[data-series="${at}"]`)
          .forEach((series) => series.classList.toggle("off", !shown));
      });
    });
  });

  const three = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 6 });

  // The height of a path at x, by halving its length: lines over time never go back.
  const heightAt = (path, x) => {
    let low = 0, high = path.getTotalLength();
    if (!high || path.getPointAtLength(0).x > x + 3 || path.getPointAtLength(high).x < x - 3) return null;
    for (let step = 0; step < 24; step++) {
      const middle = (low + high) / 2;
      if (path.getPointAtLength(middle).x < x) low = middle; else high = middle;
    }
    return path.getPointAtLength(low).y;
  };

  const readings = (svg, x) => {
    const [kind, from, to, bottom, top] = (svg.dataset.rows || "").split(" ");
    if (!kind) return [];
    const parts = [];
    svg.querySelectorAll("[data-series]:not(.off)").forEach((series) => {
      const y = heightAt(series.querySelector(".line"), x);
      if (y === null) return;
      const share = (bottom - y) / (bottom - top);
      const value = kind === "log" ? from * Math.pow(to / from, share) : +from + share * (to - from);
      parts.push(`${series.dataset.name} ≈ ${three(value)}${series.dataset.unit}`);
    });
    return parts;
  };

  document.querySelectorAll(".trial").forEach((trial) => {
    const charts = [...trial.querySelectorAll("svg[data-time]")].map((svg) => {
      const [from, to, left, right] = svg.dataset.time.split(" ").map(Number);
      const line = document.createElementNS(svgNs, "line");
      line.setAttribute("class", "cross off");
      line.setAttribute("y1", 0);
      line.setAttribute("y2", svg.viewBox.baseVal.height - 22);
      svg.append(line);
      const readout = document.createElement("div");
      readout.className = "readout";
      svg.parentElement.after(readout);
      return { svg, from, to, left, right, line, readout };
    });
    let current = null;
    const show = (seconds, told) => {
      current = seconds;
      charts.forEach((chart) => {
        chart.line.classList.toggle("off", seconds === null);
        chart.readout.textContent = "";
        if (seconds === null) return;
        const x = chart.left + (seconds - chart.from) / (chart.to - chart.from) * (chart.right - chart.left);
        chart.line.setAttribute("x1", x);
        chart.line.setAttribute("x2", x);
        chart.readout.textContent = [`${seconds.toFixed(1)} s`, ...readings(chart.svg, x)].join("   ·   ");
        if (chart.svg === told) chart.readout.setAttribute("aria-live", "polite");
      });
    };
    const clamp = (chart, seconds) => Math.min(chart.to, Math.max(chart.from, seconds));
    charts.forEach((chart) => {
      chart.svg.addEventListener("pointermove", (event) => {
        const box = chart.svg.getBoundingClientRect();
        const x = (event.clientX - box.left) / box.width * chart.svg.viewBox.baseVal.width;
        show(clamp(chart, chart.from + (x - chart.left) / (chart.right - chart.left) * (chart.to - chart.from)));
      });
      chart.svg.addEventListener("pointerleave", () => show(null));
      chart.svg.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
        if (event.key === "Escape") return show(null);
        if (!step && event.key !== "Home" && event.key !== "End") return;
        event.preventDefault();
        const now = current === null ? chart.from : current;
        const second = Math.max((chart.to - chart.from) / 600, 1);
        const next = event.key === "Home" ? chart.from : event.key === "End" ? chart.to : now + step * second;
        show(clamp(chart, next), chart.svg);
      });
    });
  });
})();
