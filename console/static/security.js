// Who may do what: ACLs, users, quotas and delegation tokens. What the cluster refuses stands in
// the section that it is about, in one line.

import { count, fill, h, scrolling, stamp, table, tableTools } from "./dom.js";
import { ask, order, state } from "./state.js";
import { doing, repeat } from "./common.js";

const EVERY_MS = 5000;
const RESOURCES = ["topic", "group", "cluster", "transactional-id", "delegation-token", "user"];
const OPERATIONS = ["all", "read", "write", "create", "delete", "alter", "describe", "cluster_action", "describe_configs", "alter_configs", "idempotent_write", "create_tokens", "describe_tokens"];
const QUOTAS = { producer_byte_rate: "bytes/s", consumer_byte_rate: "bytes/s", request_percentage: "% of a thread", controller_mutation_rate: "partitions/s", connection_creation_rate: "connections/s" };
const MECHANISMS = ["SCRAM-SHA-512", "SCRAM-SHA-256"];

const label = (title, input) => h("label", {}, title, input);
const select = (names) => h("select", {}, names.map((one) => h("option", {}, one)));

export function securityPage(main) {
  const sections = [aclSection(), userSection(), quotaSection(), tokenSection()];
  fill(main, h("h1", {}, "Security"), sections.map(([made]) => made));
  return () => sections.forEach(([, end]) => end());
}

// A table that is read anew every few seconds, with a filter, what can be done to a row, and a form.
function section(title, path, columns, doings, form) {
  const filter = h("input", { type: "search", oninput: () => draw() });
  const place = h("div"), refusal = h("p", { class: "late" });
  let rows = [];
  const shownOf = (row) => JSON.stringify(Object.values(row)).toLowerCase();
  function draw() {
    const found = rows.filter((row) => shownOf(row).includes(filter.value.toLowerCase()));
    const all = state.facts.may_write ? [...columns, ["Actions", (row) => doings(row, read), "plain"]] : columns;
    fill(place, table(title, all, found, "there are none"));
  }
  async function read() {
    try {
      rows = await ask(path);
      fill(refusal);
    } catch (error) {
      rows = [];
      fill(refusal, error.message);
    }
    draw();
  }
  const end = repeat(read, EVERY_MS);
  return [h("section", {}, h("h2", {}, title), refusal, h("div", { class: "bar" }, label(`${title} that have`, filter)), scrolling(title, place),
    tableTools(path, () => place.querySelector("table")), state.facts.may_write ? form(read) : null), end];
}

// What a row's button or a form orders, and the table after it.
async function ordered(path, body, read) {
  const found = await doing(() => order(path, body));
  if (found) await read();
  return found;
}

const button = (title, about, onclick) => h("button", { type: "button", class: "danger", "aria-label": `${title} ${about}`, onclick }, title);
const formed = (title, fields, work) => h("details", {}, h("summary", {}, title), h("form", { onsubmit: (event) => { event.preventDefault(); work(); } }, fields, h("button", {}, title)));

function aclSection() {
  const columns = [
    ["Permission", (row) => h("span", { class: row.permission === "allow" ? "good" : "bad" }, row.permission)], ["Who", (row) => row.principal], ["May", (row) => row.operation],
    ["Resource", (row) => row.resource], ["Name", (row) => (row.pattern === "prefixed" ? `${row.name}…` : row.name), "long"], ["From host", (row) => row.host],
  ];
  return section("ACLs", "acls", columns, (row, read) => button("remove", `the ACL of ${row.principal} to ${row.operation} ${row.resource} ${row.name}`, () => ordered("acls/order", { do: "remove", ...row }, read)), (read) => {
    const permission = select(["allow", "deny"]), who = h("input", { required: true, placeholder: "alice" }), operation = select(OPERATIONS), resource = select(RESOURCES);
    const name = h("input", { placeholder: "*" }), prefix = h("input", { type: "checkbox" }), host = h("input", { placeholder: "*" });
    return formed("Add an ACL", [label("Permission", permission), label("Principal", who), label("Operation", operation), label("Of", resource), label("With the name", name), h("label", { class: "inline" }, prefix, "and all that begins so"), label("Host", host)],
      () => ordered("acls/order", { do: "add", permission: permission.value, principal: who.value, operation: operation.value, resource: resource.value, name: name.value || "*", pattern: prefix.checked ? "prefixed" : "literal", host: host.value }, read));
  });
}

function userSection() {
  const columns = [["User", (row) => row.user, "long"], ["Mechanism", (row) => row.mechanism], ["Iterations", (row) => count(row.iterations), "number"]];
  return section("Users", "users", columns, (row, read) => button("remove", `${row.mechanism} of ${row.user}`, () => ordered("users/order", { do: "remove", user: row.user, mechanism: row.mechanism }, read)), (read) => {
    const user = h("input", { required: true, autocomplete: "off" }), password = h("input", { type: "password", required: true, autocomplete: "new-password" }), mechanism = select(MECHANISMS);
    return formed("Set a password", [label("User", user), label("Password", password), label("Mechanism", mechanism)], async () => {
      if (await ordered("users/order", { do: "set", user: user.value, password: password.value, mechanism: mechanism.value }, read)) password.value = "";
    });
  });
}

const entityText = (entity) => Object.entries(entity).map(([kind, name]) => `${kind} ${name ?? "(default)"}`).join(", ");

function quotaSection() {
  const columns = [["Whose", (row) => entityText(row.entity), "long"], ["Quota", (row) => row.quota], ["Value", (row) => count(row.value, 3), "number"], ["Unit", (row) => QUOTAS[row.quota] ?? ""]];
  return section("Quotas", "quotas", columns, (row, read) => button("remove", `${row.quota} of ${entityText(row.entity)}`, () => ordered("quotas/order", { entity: row.entity, quota: row.quota, value: null }, read)), (read) => {
    const kind = select(["user", "client-id", "ip"]), name = h("input", { placeholder: "empty: the default" }), quota = select(Object.keys(QUOTAS)), value = h("input", { type: "number", min: 0, step: "any", required: true });
    return formed("Set a quota", [label("Of a", kind), label("Called", name), label("Quota", quota), label("Value", value)],
      () => ordered("quotas/order", { entity: { [kind.value]: name.value || null }, quota: quota.value, value: Number(value.value) }, read));
  });
}

function tokenSection() {
  const made = h("p", { role: "status" });
  const columns = [["Token", (row) => row.token_id, "long"], ["Owner", (row) => row.owner], ["Renewers", (row) => row.renewers.join(", ") || "–"], ["Expires (UTC)", (row) => stamp(row.expires_ms)], ["Can be renewed until (UTC)", (row) => stamp(row.ends_ms)]];
  const [found, end] = section("Delegation tokens", "tokens", columns, (row, read) => ["renew", "expire"].map((what) => [button(what, `token ${row.token_id}`, () => ordered("tokens/order", { do: what, id: row.token_id }, read)), " "]), (read) => {
    const renewer = h("input", { placeholder: "nobody else" }), hours = h("input", { type: "number", min: 1, placeholder: "as long as it may" });
    return formed("Make a token", [label("May be renewed by", renewer), label("Hours", hours)], async () => {
      const one = await ordered("tokens/order", { do: "create", renewer: renewer.value, hours: Number(hours.value) }, read);
      if (one) fill(made, "A client logs in with SCRAM, tokenauth=true, as ", h("code", {}, one.id), " with the password ", h("code", {}, one.hmac), "; this is shown only now.");
    });
  });
  found.append(made);
  return [found, end];
}
