// Events from .ics files, and calendars into them.

import type { CalendarEvent } from "../../jmap/calendar";
import { ref } from "../../jmap/client";
import type { Id } from "../../jmap/types";
import { refresh, type Shelf } from "../../state/calendars";
import { copyOf } from "../../state/events";
import { writeCalendar } from "../../state/icswrite";
import { say } from "../../state/screen";
import { client } from "../../state/session";
import { count } from "../../text";
import { tk } from "../../text/calendar";
import { chooseFile, createAll, orSay } from "../importfile";
import { saveFile } from "../savefile";

/** So many events are read in one call. */
const piece = 100;

export const importEvents = (to: Shelf) => chooseFile(".ics,text/calendar", (file) => takeFile(file, to));

/** Creates the events of a file in a calendar; those that are there already, by their uid, are refused by the server. */
async function takeFile(file: File, to: Shelf): Promise<void> {
  const { blobId } = await client.upload(to.account, new Blob([file], { type: "text/calendar" }), () => undefined);
  const answer = await client.call("CalendarEvent/parse", { accountId: to.account, blobIds: [blobId] });
  const events = (answer["parsed"] as Record<Id, CalendarEvent[]> | null)?.[blobId] ?? [];
  if (events.length === 0) return void say(tk("noEvents"));
  const { done, refused, why } = await createAll("CalendarEvent", to.account, events.map((e) => ({ ...copyOf(e), uid: e.uid, calendarIds: { [to.id]: true } })), { sendSchedulingMessages: false });
  say(refused > 0 ? tk("notImported", count(done), count(refused), why) : tk("imported", count(done)), undefined, 10);
  return void (await refresh());
}

/** The events of a calendar, whole series and all. */
async function eventsOf(s: Shelf): Promise<CalendarEvent[]> {
  const out: CalendarEvent[] = [];
  for (;;) {
    const answers = await client.calls([
      ["CalendarEvent/query", { accountId: s.account, filter: { inCalendar: s.id }, position: out.length, limit: piece }, "q"],
      ["CalendarEvent/get", { accountId: s.account, "#ids": ref("q", "CalendarEvent/query", "/ids") }, "g"],
    ]);
    out.push(...(answers.get("g")!["list"] as CalendarEvent[]));
    if ((answers.get("q")!["ids"] as Id[]).length < piece) return out;
  }
}

/** Saves a calendar as an .ics file. */
export const exportCalendar = (s: Shelf) => orSay(async () => saveFile(writeCalendar(await eventsOf(s), client.now()), "text/calendar", `${s.name}.ics`));
