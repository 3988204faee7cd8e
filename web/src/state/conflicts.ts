// The events of the person's calendar at the time of an invitation.

import { ref } from "../jmap/client";
import { emailOf, type CalendarEvent } from "../jmap/calendar";
import type { Id } from "../jmap/types";
import { capability, keyOf, span, viewZone } from "./calendars";
import type { Event } from "./invitation";
import { identities } from "./outgoing";
import { attempt, client, home, offers } from "./session";
import { localTime } from "./zone";

/** An event that takes the time of another. Times are milliseconds. */
export interface Conflict {
  id: Id;
  title: string;
  from: number;
  to: number;
  wholeDay: boolean;
}

const most = 20;

/** The moments at which an invitation begins and ends; undefined where it has no time, or it is over. */
function timeOf(e: Event): { from: number; to: number } | undefined {
  if (!e.start) return undefined;
  const time = e.utcStart && e.utcEnd && !e.showWithoutTime ? { from: Date.parse(e.utcStart), to: Date.parse(e.utcEnd) } : span({ ...e, start: e.start }, viewZone.peek());
  return time.to > time.from && time.to > client.now().getTime() ? time : undefined;
}

/** Reads the other events at the time of an invitation, the first one first; undefined where nothing can be said of it. */
export async function conflictsOf(e: Event): Promise<Conflict[] | undefined> {
  const time = timeOf(e), zone = viewZone.peek();
  if (!time || !offers(capability)) return undefined;
  const answers = await attempt(() => client.calls([
    ["CalendarEvent/query", { accountId: home.value, filter: { after: localTime(time.from, zone), before: localTime(time.to, zone) }, sort: [{ property: "start", isAscending: true }], expandRecurrences: true, timeZone: zone, limit: most }, "q"],
    ["CalendarEvent/get", { accountId: home.value, "#ids": ref("q", "CalendarEvent/query", "/ids"), properties: ["id", "uid", "title", "start", "timeZone", "duration", "showWithoutTime", "status", "freeBusyStatus", "participants", "utcStart", "utcEnd"] }, "g"],
  ])).catch(() => undefined); // it is a help and no more
  if (!answers) return undefined;
  const mine = new Set(identities.value.map((i) => i.email.toLowerCase()));
  const declined = (x: CalendarEvent) => Object.values(x.participants ?? {}).some((p) => mine.has(emailOf(p)) && p.participationStatus === "declined");
  const takesTime = (x: CalendarEvent) => x.uid !== e.uid && x.status !== "cancelled" && x.freeBusyStatus !== "free" && !declined(x);
  return (answers.get("g")!["list"] as CalendarEvent[]).filter(takesTime).map((x) => ({ id: x.id, title: x.title ?? "", wholeDay: !!x.showWithoutTime, ...span(x, zone) }));
}

/** The address of an event in the calendar; repeats: it is a series, of which the day is shown alone. */
export const addressOf = (id: Id, from: number, repeats = false): string =>
  `/calendar/day/${localTime(from, viewZone.peek()).slice(0, 10)}${repeats ? "" : `?event=${encodeURIComponent(keyOf(home.peek(), id))}`}`;
