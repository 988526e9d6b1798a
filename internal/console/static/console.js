// Writes instants in the reader's zone, and keeps main.live up to date while nobody
// is reading, choosing or typing in it. Without this every page works as it is.
"use strict";
(() => {
  const every = 2000; // ms between two looks
  const patience = 5000; // ms that an answer may take
  const pad = (n, width = 2) => String(n).padStart(width, "0");
  const day = (t) => `${t.getFullYear()}-${pad(t.getMonth() + 1)}-${pad(t.getDate())}`;
  const clock = (t) => `${pad(t.getHours())}:${pad(t.getMinutes())}:${pad(t.getSeconds())}`;

  // local writes each instant in the reader's zone, with the day where it is another
  // than today; what the server wrote, in UTC, becomes its title.
  const local = (root) => {
    const today = day(new Date());
    for (const e of root.querySelectorAll("time[datetime]")) {
      const t = new Date(e.dateTime);
      if (e.title || isNaN(t)) continue;
      e.title = e.textContent;
      e.textContent = day(t) === today ? clock(t) : `${day(t)} ${clock(t)}`;
    }
    for (const e of root.querySelectorAll("tspan[data-at]")) { // a picture's, where there is less room
      const t = new Date(e.dataset.at);
      const [fraction] = e.textContent.match(/\.\d+$/) ?? [""];
      e.textContent = (day(t) === today ? "" : `${day(t).slice(5)} `) + clock(t) + fraction;
    }
  };
  local(document);
  for (const e of document.querySelectorAll(".wide:has(svg)")) e.scrollLeft = (e.scrollWidth - e.clientWidth) / 2; // where now is
  document.getElementById("zone").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;

  if (!document.querySelector("main.live")) return;
  const state = document.getElementById("state");
  const button = document.getElementById("pause");
  let paused = sessionStorage.getItem("paused") === "yes";
  let touched = false; // a form, since the page was opened
  let asking = false;
  let over = false; // nothing can be had any more
  let since = ""; // when what is shown ceased to be up to date

  const tell = (text) => {
    if (state.textContent !== text) state.textContent = text;
    state.classList.toggle("late", since !== "" || over);
  };
  // held says what keeps the page as it is; "" for nothing.
  const held = () => {
    const main = document.getElementById("main");
    const chosen = getSelection();
    if (paused) return "Paused";
    if (touched) return "Held: a form is being filled in";
    if (document.querySelector("dialog[open]")) return "Held: a dialog is open";
    if (main.querySelector("details[open]")) return "Held: details are open";
    if (!chosen.isCollapsed && main.contains(chosen.anchorNode)) return "Held: text is selected";
    if (document.activeElement !== main && main.contains(document.activeElement)) return "Held: something is focused";
    if (main.querySelector(":is(a, button, input, select, textarea, summary, label, tbody tr, svg):hover")) return "Held: something is pointed at";
    return "";
  };
  const show = () => {
    button.textContent = paused ? "Resume" : "Pause";
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
  // take puts what came in the place of what is shown.
  const take = (html) => {
    const next = new DOMParser().parseFromString(html, "text/html");
    local(next);
    document.title = next.title;
    const above = document.querySelector("nav") ? "nav" : "header"; // where nobody was known, all of it is new
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
      if (held()) return; // meanwhile
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
    paused = !paused;
    sessionStorage.setItem("paused", paused ? "yes" : "no");
    look();
  });
  document.getElementById("main").addEventListener("input", () => { touched = true; });
  document.addEventListener("visibilitychange", look);
  button.hidden = false;
  show();
  setInterval(look, every);
})();
