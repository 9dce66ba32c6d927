"use strict";
// What a reader sees before scrolling, and what stays when he scrolls. The answer stands in an attribute of the body.
(() => {
  const faults = [];
  const inFirstScreen = (what) => {
    const element = document.querySelector(what);
    if (!element) return faults.push(`${what} is missing`);
    const { bottom, right } = element.getBoundingClientRect();
    if (bottom > innerHeight) faults.push(`${what} ends at ${bottom} of ${innerHeight}`);
    if (right > innerWidth) faults.push(`${what} is wider than the window`);
  };
  ["h1", "header dl", "header code", "nav"].forEach(inFirstScreen);
  if (!/[0-9]/.test(document.querySelector("h1").textContent)) faults.push("the headline has no figure");
  if (document.documentElement.scrollWidth > innerWidth) faults.push("the page is wider than the window");
  window.scrollTo(0, document.documentElement.scrollHeight / 2);
  const { top } = document.querySelector("nav").getBoundingClientRect();
  if (window.scrollY < 100 || Math.abs(top) > 1) faults.push(`the table of contents stands at ${top}`);
  document.querySelectorAll("nav a").forEach((link) => {
    if (!document.querySelector(link.getAttribute("href"))) faults.push(`${link.href} leads nowhere`);
  });
  document.body.dataset.first = faults.join("; ") || "no faults";
})();
