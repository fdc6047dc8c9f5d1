// The frame around the pages: which one is shown follows the address behind the #.

import { fill, h, tell } from "./dom.js";
import { follow, listen, state } from "./state.js";
import { clientsPage } from "./clients.js";
import { clusterPage } from "./cluster.js";
import { groupsPage } from "./groups.js";
import { insidePage } from "./inside.js";
import { learnPage } from "./learn.js";
import { messagesPage } from "./messages.js";
import { overviewPage } from "./overview.js";
import { plotsPage } from "./plots.js";
import { securityPage } from "./security.js";
import { tablesPage } from "./tables.js";
import { topicsPage } from "./topics.js";
import { transactionsPage } from "./transactions.js";

// Name in the address -> title and the page: a function of its place and the rest of the address,
// which returns what ends it.
const PAGES = {
  overview: ["Overview", overviewPage],
  cluster: ["Cluster", clusterPage],
  topics: ["Topics", topicsPage],
  messages: ["Messages", messagesPage],
  groups: ["Groups", groupsPage],
  clients: ["Clients", clientsPage],
  transactions: ["Transactions", transactionsPage],
  security: ["Security", securityPage],
  plots: ["Metrics", plotsPage],
  tables: ["Tables", tablesPage],
  inside: ["Inside", insidePage],
};

// Only of a console that has a course.
const learning = { learn: ["Learn", learnPage] };

let end = () => {};

function show() {
  const [name, ...rest] = location.hash.slice(2).split("/").map(decodeURIComponent);
  const page = PAGES[name] ? name : "overview";
  end();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const main = document.getElementById("main");
  fill(main);
  document.title = `${PAGES[page][0]} · pybroker console`;
  try {
    end = PAGES[page][1](main, rest) ?? (() => {});
  } catch (error) {
    end = () => {};
    tell(error.message, true);
  }
  if (document.activeElement?.closest("nav")) main.focus({ preventScroll: true });
}

function theme(wanted) {
  document.documentElement.dataset.theme = wanted;
  localStorage.setItem("theme", wanted);
  fill(document.getElementById("theme"), wanted === "dark" ? "Light" : "Dark");
}

theme(localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
function navigation() {
  fill(document.getElementById("nav"), Object.entries(PAGES).map(([name, [title]], index) =>
    h("a", { href: `#/${name}`, "data-page": name, title: `Alt+${index + 1}` }, title)));
}
navigation();
addEventListener("keydown", (event) => {
  const name = Object.keys(PAGES)[Number(event.key) - 1];
  if (event.altKey && name) location.hash = `#/${name}`;
});
addEventListener("unhandledrejection", (event) => tell(event.reason?.message ?? "that failed", true));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
// Pages show what may be done: that is known once the first message is there.
const ready = follow(() => {
  if (!state.isThere) return;
  ready();
  if (state.facts.has_course) {
    Object.assign(PAGES, learning);
    navigation();
  }
  addEventListener("hashchange", show);
  show();
});
listen();
