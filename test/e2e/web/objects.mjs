// The events, tasks and contacts of a person, as another program reads and makes them.

import { base } from "./world.mjs";

/** Asks the server as another program of a person does, and returns the answers. */
export async function jmap(user, ...calls) {
  const headers = { Authorization: `Basic ${Buffer.from(`${user}:demo`).toString("base64")}`, "Content-Type": "application/json" };
  const session = await (await fetch(`${base}/jmap/session`, { headers })).json();
  const accountId = session.primaryAccounts["urn:ietf:params:jmap:mail"];
  const body = JSON.stringify({ using: Object.keys(session.capabilities), methodCalls: calls.map(([name, args], i) => [name, { accountId, ...args }, String(i)]) });
  const answer = await (await fetch(session.apiUrl, { method: "POST", headers, body })).json();
  return answer.methodResponses.map(([, args]) => args);
}

const from = (name, path = "/ids") => ({ resultOf: "0", name, path });
/** The events between two days with single instances, by title. */
export async function events(user, first, last) {
  const [, got] = await jmap(user, ["CalendarEvent/query", { filter: { after: `${first}T00:00:00`, before: `${last}T00:00:00` }, expandRecurrences: true, timeZone: "UTC" }], ["CalendarEvent/get", { "#ids": from("CalendarEvent/query") }]);
  return got.list.sort((a, b) => (a.start < b.start ? -1 : 1));
}
export async function tasks(user) {
  const [, got] = await jmap(user, ["Task/query", {}], ["Task/get", { "#ids": from("Task/query") }]);
  return got.list;
}
export async function cards(user, text) {
  const [, got] = await jmap(user, ["ContactCard/query", { filter: { text } }], ["ContactCard/get", { "#ids": from("ContactCard/query") }]);
  return got.list;
}
export async function make(user, event) {
  const [calendars] = await jmap(user, ["Calendar/get", { ids: null }]);
  const calendar = calendars.list.find((c) => c.isDefault).id;
  const [made] = await jmap(user, ["CalendarEvent/set", { create: { e: { "@type": "Event", duration: "PT1H", timeZone: "Etc/UTC", calendarIds: { [calendar]: true }, ...event } } }]);
  return made.created.e.id;
}
