// The person's calendar after an answer that went by mail.

import { ref, refusalIn } from "../jmap/client";
import { emailOf, statusPatch, type Calendar, type CalendarEvent } from "../jmap/calendar";
import type { Id, SetError } from "../jmap/types";
import type { Answer } from "./invitation";
import { shiftLocal } from "./recur";
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
  const parsed = ((answers.get("p")!["parsed"] as Record<Id, CalendarEvent[]> | null)?.[of.blob] ?? [])[0];
  const event = (answers.get("g")!["list"] as CalendarEvent[])[0];
  if (event) {
    const there = parsed?.recurrenceId ? await instanceOf(account, of.uid, parsed) : event;
    const mine = Object.entries(there?.participants ?? {}).find(([, p]) => emailOf(p) === of.me)?.[0];
    return there && mine !== undefined ? set(account, { update: { [there.id]: statusPatch(mine, answer) } }) : undefined;
  }
  const calendar = (answers.get("c")!["list"] as Calendar[]).find((c) => c.isDefault);
  // One instance of a series that is not here is no event of its own.
  if (!parsed || !calendar || parsed.recurrenceId || answer === "declined") return undefined;
  const ours = Object.fromEntries(Object.entries(parsed).filter(([k]) => !notOurs.includes(k)));
  const participants = Object.fromEntries(Object.entries(parsed.participants ?? {}).map(([id, p]) => [id, emailOf(p) === of.me ? { ...p, participationStatus: answer } : p]));
  return set(account, { create: { e: { ...ours, participants, calendarIds: { [calendar.id]: true } } } });
}

const day = 24 * 60;

/** The instance of a series in the calendar that a message is about. One that was moved by more than a day is not found. */
async function instanceOf(account: Id, uid: string, { recurrenceId, recurrenceIdTimeZone, timeZone }: CalendarEvent): Promise<CalendarEvent | undefined> {
  const zone = recurrenceIdTimeZone ?? timeZone;
  const answers = await client.calls([
    ["CalendarEvent/query", { accountId: account, filter: { uid, after: shiftLocal(recurrenceId!, -day), before: shiftLocal(recurrenceId!, day) }, expandRecurrences: true, ...(zone ? { timeZone: zone } : {}) }, "q"],
    ["CalendarEvent/get", { accountId: account, "#ids": ref("q", "CalendarEvent/query", "/ids"), properties: ["id", "recurrenceId", "participants"] }, "g"],
  ]);
  return (answers.get("g")!["list"] as CalendarEvent[]).find((e) => e.recurrenceId === recurrenceId);
}

async function set(account: Id, args: Record<string, unknown>): Promise<SetError | undefined> {
  return refusalIn(await client.call("CalendarEvent/set", { accountId: account, ...args, sendSchedulingMessages: false }));
}
