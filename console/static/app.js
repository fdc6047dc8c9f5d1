// The frame around the pages: which one is shown follows the address behind the #.

import { fill, h, tell } from "./dom.js";
import { follow, listen, state } from "./state.js";
import { overviewPage } from "./overview.js";

// Name in the address -> title, and what loads the page: a function of its place and the rest of the
// address, which returns what ends it. The first page does not wait for the code of others.
const PAGES = {
  overview: ["Overview", () => overviewPage],
  cluster: ["Cluster", async () => (await import("./cluster.js")).clusterPage],
  topics: ["Topics", async () => (await import("./topics.js")).topicsPage],
  messages: ["Messages", async () => (await import("./messages.js")).messagesPage],
  groups: ["Groups", async () => (await import("./groups.js")).groupsPage],
  clients: ["Clients", async () => (await import("./clients.js")).clientsPage],
  transactions: ["Transactions", async () => (await import("./transactions.js")).transactionsPage],
  security: ["Security", async () => (await import("./security.js")).securityPage],
  plots: ["Metrics", async () => (await import("./plots.js")).plotsPage],
  tables: ["Tables", async () => (await import("./tables.js")).tablesPage],
  inside: ["Inside", async () => (await import("./inside.js")).insidePage],
};

// Only of a console that has a course.
const learning = { learn: ["Learn", async () => (await import("./learn.js")).learnPage] };

let end = () => {}, shown = 0;

async function show() {
  const [name, ...rest] = location.hash.slice(2).split("/").map(decodeURIComponent);
  const page = PAGES[name] ? name : "overview";
  const [title, load] = PAGES[page];
  const mine = ++shown;
  end();
  end = () => {};
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const main = document.getElementById("main");
  fill(main);
  document.title = `${title} · pybroker console`;
  if (document.activeElement?.closest("nav")) main.focus({ preventScroll: true });
  try {
    const found = load();
    const draw = found instanceof Promise ? await found : found;
    if (mine !== shown) return; // another page was asked for meanwhile
    end = draw(main, rest) ?? (() => {});
  } catch (error) {
    tell(error.message, true);
  }
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
// So that they open at once, and also when the console has ended meanwhile.
const OTHERS_AFTER_MS = 1000;
async function loadOthers() {
  for (const page of Object.values(PAGES)) {
    try {
      const draw = await page[1]();
      page[1] = () => draw;
    } catch { /* the page is loaded when it is opened */ }
  }
}
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
  setTimeout(loadOthers, OTHERS_AFTER_MS);
});
listen();
