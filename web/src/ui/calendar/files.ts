// Events from .ics files, and calendars into them.

import type { CalendarEvent } from "../../jmap/calendar";
import { ref } from "../../jmap/client";
import type { Id, SetError } from "../../jmap/types";
import { refresh, type Shelf } from "../../state/calendars";
import { copyOf } from "../../state/events";
import { writeCalendar } from "../../state/icswrite";
import { say } from "../../state/screen";
import { client } from "../../state/session";
import { count, t } from "../../text";
import { tk } from "../../text/calendar";
import { saveFile } from "../savefile";

/** So many events are created in one call. */
const piece = 100;

/** Creates the events of a file in a calendar; those that are there already, by their uid, are refused by the server. */
async function importFile(file: File, to: Shelf): Promise<{ done: number; refused: number; why: string }> {
  const { blobId } = await client.upload(to.account, new Blob([file], { type: "text/calendar" }), () => undefined);
  const answer = await client.call("CalendarEvent/parse", { accountId: to.account, blobIds: [blobId] });
  const events = (answer["parsed"] as Record<Id, CalendarEvent[]> | null)?.[blobId] ?? [];
  const out = { done: 0, refused: 0, why: "" };
  for (let i = 0; i < events.length; i += piece) {
    const create = Object.fromEntries(events.slice(i, i + piece).map((e, n) => [`e${n}`, { ...copyOf(e), uid: e.uid, calendarIds: { [to.id]: true } }]));
    const made = await client.call("CalendarEvent/set", { accountId: to.account, create, sendSchedulingMessages: false });
    const bad = Object.values((made["notCreated"] ?? {}) as Record<string, SetError>);
    out.refused += bad.length;
    out.done += Object.keys((made["created"] ?? {}) as object).length;
    if (bad[0]) out.why = bad[0].description ?? bad[0].type;
  }
  return out;
}

export function chooseFile(to: Shelf): void {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = ".ics,text/calendar";
  input.onchange = () => {
    const file = input.files?.[0];
    if (file) void takeFile(file, to);
  };
  input.click();
}

async function takeFile(file: File, to: Shelf): Promise<void> {
  try {
    const { done, refused, why } = await importFile(file, to);
    if (done + refused === 0) say(tk("noEvents"));
    else say(refused > 0 ? tk("notImported", count(done), count(refused), why) : tk("imported", count(done)), undefined, 10);
    await refresh();
  } catch (e) {
    say(e instanceof Error ? t("refusedByServer", e.message) : t("cannotReach"));
  }
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
export async function exportCalendar(s: Shelf): Promise<void> {
  try {
    saveFile(writeCalendar(await eventsOf(s), client.now()), "text/calendar", `${s.name}.ics`);
  } catch (e) {
    say(e instanceof Error ? t("refusedByServer", e.message) : t("cannotReach"));
  }
}
