// Invitations in the calendar that wait for an answer of the person.

import { ref } from "../jmap/client";
import { emailOf, type CalendarEvent } from "../jmap/calendar";
import { capability, viewZone } from "./calendars";
import { addDays, type Day } from "./days";
import { unanswered } from "./invited";
import { identities } from "./outgoing";
import { attempt, client, home, offers } from "./session";
import { guests } from "./written";
import { localTime } from "./zone";

export { unanswered };

const days = 183;
const most = 20;

/** The number of the last reading, and of the last one whose answer was taken. */
let reads = 0;
let taken = 0;

/** Reads the invitations again; an answer is not taken behind that of a later reading. */
export async function readUnanswered(): Promise<void> {
  const me = identities.value[0]?.email;
  if (!me || !offers(capability)) return;
  const from = localTime(client.now().getTime(), viewZone.peek());
  const to: Day = addDays(from.slice(0, 10), days);
  const filter = { after: from, before: `${to}T00:00:00`, participationStatus: "needs-action", attendee: me };
  const mine = ++reads;
  const answers = await attempt(() => client.calls([
    ["CalendarEvent/query", { accountId: home.value, filter, sort: [{ property: "start", isAscending: true }], timeZone: viewZone.peek(), limit: most }, "q"],
    ["CalendarEvent/get", { accountId: home.value, "#ids": ref("q", "CalendarEvent/query", "/ids"), properties: ["id", "title", "start", "timeZone", "showWithoutTime", "recurrenceRules", "participants", "status"] }, "g"],
  ])).catch(() => undefined);
  if (!answers || mine < taken) return;
  taken = mine;
  const asksMe = (e: CalendarEvent) => e.status !== "cancelled" && guests(e).some(([, p]) => emailOf(p) === me.toLowerCase() && (p.participationStatus ?? "needs-action") === "needs-action");
  unanswered.value = (answers.get("g")!["list"] as CalendarEvent[]).filter(asksMe);
}
