// Writes instants in the reader's time zone, fills forms in it, and updates main.live while
// the reader is not selecting, pointing or typing. Every page works without this script.
"use strict";
(() => {
  const every = 2000; // ms between two updates
  const patience = 5000; // time-out of a request, in ms
  // all instants of a page use one zone: the browser's, or UTC if the reader chose it
  const browsers = Intl.DateTimeFormat().resolvedOptions().timeZone;
  // the browser may forbid storage
  const kept = (where, name) => { try { return where().getItem(name); } catch { return null; } };
  const keep = (where, name, value) => { try { where().setItem(name, value); } catch {} };
  const [browser, tab] = [() => localStorage, () => sessionStorage];
  let utc = kept(browser, "zone") === "utc";
  const shifted = (t) => new Date(utc ? t : t - t.getTimezoneOffset() * 60000).toISOString();
  const day = (t) => shifted(t).slice(0, 10);
  const clock = (t) => shifted(t).slice(11, 19);

  // chosen returns the instant in a form's field, which is in the page's zone.
  const chosen = (field) => new Date(field.value + (utc ? "Z" : ""));
  const fields = "input[type=datetime-local]";

  // write formats every instant in the page's zone, with the date if it is not today.
  const write = (root) => {
    const today = day(new Date());
    for (const e of root.querySelectorAll("time[datetime]")) {
      const t = new Date(e.dateTime);
      if (isNaN(t)) continue;
      e.title ||= e.textContent; // the server's text, in UTC
      e.textContent = day(t) === today ? clock(t) : `${day(t)} ${clock(t)}`;
    }
    for (const e of root.querySelectorAll("tspan[data-at]")) { // pictures have less room
      const t = new Date(e.dataset.at);
      const [fraction] = e.textContent.match(/\.\d+$/) ?? [""];
      const time = /:\d+:/.test(e.textContent) ? clock(t) + fraction : clock(t).slice(0, 5);
      e.textContent = (day(t) === today ? "" : `${day(t).slice(5)} `) + time;
    }
    for (const e of root.querySelectorAll("[data-zone]")) e.textContent = utc ? "UTC" : browsers;
  };
  const fill = (root) => { // the server sends UTC
    for (const e of root.querySelectorAll(fields)) if (e.value) e.value = shifted(new Date(`${e.value}Z`)).slice(0, 19);
  };
  write(document);
  fill(document);
  document.addEventListener("formdata", (event) => {
    for (const e of event.target.querySelectorAll(fields)) if (e.name && e.value) event.formData.set(e.name, chosen(e).toISOString());
  });
  const zone = document.getElementById("zone");
  const offer = () => { zone.textContent = `Show times in ${utc ? browsers : "UTC"}`; };
  zone.addEventListener("click", () => {
    const before = new Map([...document.querySelectorAll(fields)].filter((e) => e.value).map((e) => [e, chosen(e)]));
    utc = !utc;
    keep(browser, "zone", utc ? "utc" : "local");
    for (const [e, t] of before) e.value = shifted(t).slice(0, 19);
    write(document);
    offer();
  });
  offer();
  zone.hidden = browsers === "UTC";
  for (const e of document.querySelectorAll(".wide:has(svg)")) { // scroll to now
    e.scrollLeft = (e.scrollWidth - e.clientWidth) / (e.querySelector(".chart") ? 1 : 2);
  }

  // one box selects all rows of a table; the buttons show the number of selected rows
  const select = () => {
    for (const all of document.querySelectorAll("input[data-all]")) {
      const boxes = [...all.form.querySelectorAll("input[name=ref]")];
      const n = boxes.filter((e) => e.checked).length;
      all.closest("label").hidden = false;
      all.checked = n > 0 && n === boxes.length;
      all.indeterminate = n > 0 && n < boxes.length;
      for (const b of all.form.querySelectorAll("button[data-selected]")) b.textContent = n > 0 ? `${b.dataset.selected} ${n}` : `${b.dataset.selected} selected`;
    }
  };
  document.addEventListener("change", ({ target }) => {
    if (target.matches("input[data-all]")) for (const e of target.form.querySelectorAll("input[name=ref]")) e.checked = target.checked;
    select();
  });
  select();

  if (!document.querySelector("main.live")) return;
  const state = document.getElementById("state");
  const button = document.getElementById("freeze");
  let frozen = kept(tab, "frozen") === "yes";
  let touched = false; // a form was edited since the page was opened
  let asking = false;
  let over = false; // signed out: no further updates
  let since = ""; // the time of the last update before a failure; "" if current

  const tell = (text) => {
    if (state.textContent !== text) state.textContent = text;
    state.classList.toggle("late", since !== "" || over);
  };
  // held returns the reason not to update the page; "" for none.
  const held = () => {
    const main = document.getElementById("main");
    const chosen = getSelection();
    if (frozen) return "Frozen";
    if (touched) return "Held: a form is being filled in";
    if (document.querySelector("dialog[open]")) return "Held: a dialog is open";
    if (main.querySelector("details[open]")) return "Held: details are open";
    if (!chosen.isCollapsed && main.contains(chosen.anchorNode)) return "Held: text is selected";
    if (document.activeElement !== main && main.contains(document.activeElement)) return "Held: something is focused";
    if (main.querySelector(":is(a, button, input, select, textarea, summary, label, tbody tr, svg):hover")) return "Held: something is pointed at";
    return "";
  };
  const show = () => {
    button.textContent = frozen ? "Resume updates" : "Freeze page";
    tell(over || since ? state.textContent : held() || "Updating");
  };
  const stop = () => {
    over = true;
    button.hidden = true;
    tell("Not up to date: you are signed out. ");
    const again = document.createElement("a");
    again.href = location.href;
    again.textContent = "Sign in";
    state.append(again);
  };
  // take replaces the page by the answer.
  const take = (html) => {
    const next = new DOMParser().parseFromString(html, "text/html");
    write(next);
    fill(next);
    document.title = next.title;
    const above = document.querySelector("nav") ? "nav" : "header"; // without a sign-in there is no nav: replace the header
    for (const part of [above, "main", "#now"]) {
      const [old, fresh] = [document.querySelector(part), next.querySelector(part)];
      if (old && fresh) Idiomorph.morph(old, fresh, { morphStyle: "outerHTML" });
    }
  };
  const ask = async () => {
    if (asking || over || document.hidden || held() || !document.querySelector("main.live")) return;
    asking = true;
    try {
      const answer = await fetch(location.href, { redirect: "manual", signal: AbortSignal.timeout(patience) });
      if (answer.status === 401 || answer.type === "opaqueredirect") return stop();
      if (!answer.ok) throw new Error(answer.status);
      const html = await answer.text();
      if (held()) return; // since the request
      take(html);
      since = "";
    } catch {
      since ||= document.querySelector("#now time").textContent;
      tell(`Not up to date since ${since}`);
    } finally {
      asking = false;
      show();
    }
  };
  const look = () => {
    show();
    ask();
  };
  button.addEventListener("click", () => {
    frozen = !frozen;
    keep(tab, "frozen", frozen ? "yes" : "no");
    look();
  });
  document.getElementById("main").addEventListener("input", () => { touched = true; });
  document.addEventListener("visibilitychange", look);
  button.hidden = false;
  show();
  setInterval(look, every);
})();
