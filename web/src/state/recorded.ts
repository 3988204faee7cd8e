// The person's calendar after an answer that went by mail.

import { ref } from "../jmap/client";
import { emailOf, statusPatch, type Calendar, type CalendarEvent } from "../jmap/calendar";
import type { Id, SetError } from "../jmap/types";
import type { Answer } from "./invitation";
import { client, offers } from "./session";

/** An invitation that was answered: the part of the message that has it, its UID, and the address that answers. */
export interface Answered {
  blob: Id;
  uid: string;
  me: string;
}

/** Properties of a parsed event that belong to its message, or that strangers do not decide on. */
const notOurs = ["method", "utcStart", "utcEnd", "prodId", "alerts", "useDefaultAlerts", "calendarIds", "id"];

/**
 * Puts an answered invitation into the default calendar, or the answer into the event that is there; nobody is told again. Done twice, it
 * is done once. Returns the refusal of the server, if any.
 */
export async function record(account: Id, of: Answered, answer: Answer): Promise<SetError | undefined> {
  if (!offers("urn:ietf:params:jmap:calendars")) return undefined;
  const answers = await client.calls([
    ["CalendarEvent/query", { accountId: account, filter: { uid: of.uid } }, "q"],
    ["CalendarEvent/get", { accountId: account, "#ids": ref("q", "CalendarEvent/query", "/ids"), properties: ["id", "participants"] }, "g"],
    ["Calendar/get", { accountId: account, ids: null, properties: ["id", "isDefault"] }, "c"],
    ["CalendarEvent/parse", { accountId: account, blobIds: [of.blob] }, "p"],
  ]);
  const there = (answers.get("g")!["list"] as CalendarEvent[])[0];
  if (there) {
    const mine = Object.entries(there.participants ?? {}).find(([, p]) => emailOf(p) === of.me)?.[0];
    return mine === undefined ? undefined : set(account, { update: { [there.id]: statusPatch(mine, answer) } });
  }
  const parsed = ((answers.get("p")!["parsed"] as Record<Id, CalendarEvent[]> | null)?.[of.blob] ?? [])[0];
  const calendar = (answers.get("c")!["list"] as Calendar[]).find((c) => c.isDefault);
  // One instance of a series that is not here is no event of its own.
  if (!parsed || !calendar || parsed.recurrenceId || answer === "declined") return undefined;
  const event = Object.fromEntries(Object.entries(parsed).filter(([k]) => !notOurs.includes(k)));
  const participants = Object.fromEntries(Object.entries(parsed.participants ?? {}).map(([id, p]) => [id, emailOf(p) === of.me ? { ...p, participationStatus: answer } : p]));
  return set(account, { create: { e: { ...event, participants, calendarIds: { [calendar.id]: true } } } });
}

async function set(account: Id, args: Record<string, unknown>): Promise<SetError | undefined> {
  const done = await client.call("CalendarEvent/set", { accountId: account, ...args, sendSchedulingMessages: false });
  return Object.values({ ...done["notCreated"], ...done["notUpdated"] } as Record<string, SetError>)[0];
}
