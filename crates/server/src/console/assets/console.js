// Keeps a page up to date: when the server says that something changed, the page is read again and
// its content replaced. A page works without this script.
"use strict";
(() => {
  const main = document.querySelector("main[data-live]");
  const state = document.querySelector("[data-live-state]");
  if (!main || !window.EventSource) return;

  // At most one read of the page a second, however much happens.
  const PAUSE = 1000;
  let timer = 0, reading = false, again = false, since = 0;

  const say = (text) => { if (state && state.textContent !== text) state.textContent = text; };

  // Somebody who types, selects text, has opened a form or goes through the page by keyboard must
  // not lose the place.
  const isBusy = () => {
    const active = document.activeElement;
    const inside = active && active !== main && main.contains(active);
    const types = inside && (/^(INPUT|SELECT|TEXTAREA|BUTTON)$/.test(active.tagName) || active.matches(":focus-visible"));
    const selection = window.getSelection();
    const selects = selection && !selection.isCollapsed && main.contains(selection.anchorNode);
    const opened = main.querySelector("details[open]:not([data-open]) form") !== null;
    return types || selects || opened || [...main.querySelectorAll("input, select, textarea")].some(isChanged);
  };

  const isChanged = (field) => {
    if (field.type === "hidden") return false;
    if (field.type === "radio" || field.type === "checkbox") return field.checked !== field.defaultChecked;
    if (field.tagName === "SELECT") return [...field.options].some((one) => one.selected !== one.defaultSelected && one.value !== "");
    return field.value !== field.defaultValue;
  };

  const read = async () => {
    timer = 0;
    if (document.hidden) { again = true; return; }
    if (isBusy()) { again = true; say("Paused while you work here"); return; }
    if (reading) { again = true; return; }
    reading = true;
    again = false;
    try {
      const answer = await fetch(location.href, { headers: { "X-Console": "live" }, redirect: "manual" });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.querySelector("main");
        if (fresh && !isBusy()) replace(fresh);
        say("Live");
      } else if (answer.type === "opaqueredirect" || answer.status === 401) {
        say("Signed out: reload the page");
      }
    } catch { say("The server does not answer; trying again"); }
    since = Date.now();
    reading = false;
    if (again || isRunning()) plan();
  };

  // A job of this page is running: it may end without an event.
  const isRunning = () => main.querySelector("progress") !== null;

  const replace = (fresh) => {
    const open = new Set([...main.querySelectorAll("details[open] > summary")].map((one) => one.textContent));
    const focus = document.activeElement && main.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const left = [...main.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    main.replaceChildren(...fresh.childNodes);
    for (const summary of main.querySelectorAll("details > summary")) {
      if (open.has(summary.textContent)) summary.parentElement.open = true;
    }
    main.querySelectorAll(".scroll").forEach((one, i) => { one.scrollLeft = left[i] || 0; });
    if (focus) main.querySelector(`a[href="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
  };

  const plan = () => {
    if (timer) return;
    timer = setTimeout(read, Math.max(0, PAUSE - (Date.now() - since)));
  };

  if (isRunning()) plan();
  const events = new EventSource("/live");
  let first = true;
  events.addEventListener("change", () => { if (first) { first = false; say("Live"); } else plan(); });
  events.addEventListener("error", () => say("Not connected; trying again"));
  document.addEventListener("visibilitychange", () => { if (!document.hidden && again) plan(); });
  document.addEventListener("focusout", () => { if (again) plan(); });
  // `toggle` does not bubble: it is seen on its way down.
  document.addEventListener("toggle", () => { if (again) plan(); }, true);
  window.addEventListener("pagehide", () => events.close());
})();
