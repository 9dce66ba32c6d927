"use strict";
// Points, clicks and types as a reader of the report would, and leaves what went wrong in `data-driven` of the body.
(() => {
  const wrong = [];
  const expect = (right, words) => { if (!right && !wrong.includes(words)) wrong.push(words); };
  document.querySelectorAll("details").forEach((details) => { details.open = true; });

  const trials = [...document.querySelectorAll(".trial")].filter((trial) => trial.querySelector("svg[data-time]"));
  expect(trials.length > 0, "no trial has a chart over time");
  trials.forEach((trial) => {
    const charts = [...trial.querySelectorAll("svg[data-time]")];
    const crosses = () => charts.map((svg) => svg.querySelector(".cross"));
    const readouts = () => charts.map((svg) => svg.parentElement.nextElementSibling);
    const seconds = () => readouts().map((readout) => parseFloat(readout.textContent));
    const gone = () => crosses().every((cross) => cross.classList.contains("off"))
      && readouts().every((readout) => readout.textContent === "");
    const pointAt = (svg, share) => {
      const [, , left, right] = svg.dataset.time.split(" ").map(Number);
      const box = svg.getBoundingClientRect();
      expect(box.width > 0, "a chart has no width");
      const x = left + share * (right - left);
      const clientX = box.left + x / svg.viewBox.baseVal.width * box.width;
      svg.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY: box.top + 5, bubbles: true }));
      return x;
    };
    const press = (svg, key) => svg.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));

    expect(gone(), "a crosshair is there before anybody points");
    charts.forEach((svg, at) => {
      const [from, to] = svg.dataset.time.split(" ").map(Number);
      const x = pointAt(svg, 0.5);
      expect(crosses().every((cross) => !cross.classList.contains("off")), "the crosshair is not in every chart");
      expect(Math.abs(crosses()[at].x1.baseVal.value - x) < 1, "the crosshair is not where the pointer is");
      expect(seconds().every((now) => Math.abs(now - (from + to) / 2) < 0.11), "the readout tells another time");
      svg.dispatchEvent(new PointerEvent("pointerleave"));
      expect(gone(), "the crosshair stays when the pointer leaves");

      expect(press(svg, "x"), "a key without a meaning is taken");
      expect(!press(svg, "Home"), "Home is not taken");
      expect(Math.abs(seconds()[at] - from) < 0.06, "Home is not the begin");
      press(svg, "ArrowRight");
      expect(seconds()[at] > from, "the right arrow does not go right");
      expect(readouts()[at].getAttribute("aria-live") === "polite", "what a key shows is not told");
      press(svg, "End");
      expect(Math.abs(seconds()[at] - to) < 0.06, "End is not the end");
      press(svg, "ArrowLeft");
      expect(seconds()[at] < to, "the left arrow does not go left");
      press(svg, "Escape");
      expect(gone(), "Escape leaves the crosshair");
    });
  });

  // A legend button takes its series from the chart and from the readout, and gives it back.
  const buttons = [...document.querySelectorAll(".legend button")];
  expect(buttons.length > 0, "there is no legend button");
  let read = 0;
  buttons.forEach((button) => {
    const figure = button.closest("figure");
    const at = [...button.parentElement.children].indexOf(button);
    const series = [...figure.querySelectorAll(`[data-series="${at}"]`)];
    expect(series.length > 0, "a legend button stands for nothing");
    const hidden = () => series.every((of) => of.classList.contains("off"));
    const svg = figure.querySelector("svg[data-time][data-rows]");
    const named = () => {
      const box = svg.getBoundingClientRect();
      const [, , left, right] = svg.dataset.time.split(" ").map(Number);
      const clientX = box.left + (left + right) / 2 / svg.viewBox.baseVal.width * box.width;
      svg.dispatchEvent(new PointerEvent("pointermove", { clientX }));
      return svg.parentElement.nextElementSibling.textContent.includes(`${series[0].dataset.name} ≈`);
    };
    const before = svg && named();
    button.click();
    expect(hidden() && button.getAttribute("aria-pressed") === "false", "a legend button does not hide its series");
    if (before) {
      read += 1;
      expect(!named(), "a hidden series is still read out");
    }
    button.click();
    expect(!hidden() && button.getAttribute("aria-pressed") === "true", "a legend button does not show its series again");
    if (before) expect(named(), "a series shown again is not read out");
  });
  expect(read > 0, "no chart reads out a series");
  document.body.dataset.driven = wrong.join("; ") || "all well";
})();
