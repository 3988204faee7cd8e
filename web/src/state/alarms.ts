// Alerts of events and tasks (RFC 8984 §4.5.2): a page of the client that is open shows them, each once in a browser.

import { alertsOf, dueTimes, tasksRead, taskTimes, type Due } from "./alerttimes";
import { ref } from "../jmap/client";
import type { Calendar, CalendarEvent } from "../jmap/calendar";
import type { Task } from "../jmap/tasks";
import type { Call, Id } from "../jmap/types";
import { revision } from "./calendars";
import { attempt, client, home, localStorageGet, localStorageSet, offers } from "./session";
import { isZone, localTime } from "./zone";

/** Events and tasks are read again so often, and those of so many days ahead: an alert may come up to a week before its event. */
const every = 15 * 60_000;
const daysAhead = 8;
const day = 86_400_000;
/** An alert that came while no page was open is shown if it is not older. */
const late = 10 * 60_000;
const most = 200;
/** The page has so much time to begin with what the person came for. */
const quiet = 3_000;
const key = "doublet:alerted";

export type Alarm = Due & ({ event: CalendarEvent } | { task: Task });

/** The alarms that were shown, by key, with the time until when that is remembered. */
function shown(): Record<string, number> {
  try {
    return JSON.parse(localStorageGet(key) ?? "{}") as Record<string, number>;
  } catch {
    return {};
  }
}

/** Reports if this page is the first of the browser to come to an alarm: others that do at the same moment find it locked. */
function isFirst(a: Alarm): Promise<boolean> {
  if (!("locks" in navigator)) return Promise.resolve(true);
  return new Promise((done) => void navigator.locks.request(`doublet:alarm ${a.key}`, { ifAvailable: true }, (lock) => {
    done(!!lock);
    return lock ? new Promise((end) => setTimeout(end, 60_000)) : undefined;
  }));
}

/** Notes that an alarm is shown now; false: another page of this browser has shown it. */
async function claim(a: Alarm, now: number): Promise<boolean> {
  if (!(await isFirst(a))) return false;
  const all = shown();
  if (all[a.key]) return false;
  const left = Object.entries(all).filter(([, until]) => until > now).slice(-most);
  localStorageSet(key, JSON.stringify({ ...Object.fromEntries(left), [a.key]: now + 2 * day }));
  return true;
}

/** The alarms that are due between two moments, the first one first; undefined: the server did not answer. */
async function read(from: number, to: number, zone: string): Promise<Alarm[] | undefined> {
  const window = { after: localTime(from - day, zone), before: localTime(to + daysAhead * day, zone) };
  const tasks: Call[] = offers("urn:ietf:params:jmap:tasks") ? [
    ["Task/query", { accountId: home.peek(), filter: window, expandRecurrences: true, timeZone: zone, limit: 500 }, "tq"],
    ["Task/get", { accountId: home.peek(), "#ids": ref("tq", "Task/query", "/ids"), properties: ["id", "uid", "title", "start", "due", "timeZone", "showWithoutTime", "progress", "alerts"] }, "t"],
  ] : [];
  const answers = await attempt(() => client.calls([
    ...tasks,
    ["CalendarEvent/query", { accountId: home.peek(), filter: window, sort: [{ property: "start", isAscending: true }], expandRecurrences: true, timeZone: zone, limit: 500 }, "q"],
    ["CalendarEvent/get", { accountId: home.peek(), "#ids": ref("q", "CalendarEvent/query", "/ids"), timeZone: zone, properties: ["id", "uid", "calendarIds", "title", "start", "timeZone", "duration", "showWithoutTime", "status", "alerts", "useDefaultAlerts", "locations", "utcStart", "utcEnd"] }, "g"],
    ["Calendar/get", { accountId: home.peek(), properties: ["id", "isSubscribed", "isVisible", "defaultAlertsWithTime", "defaultAlertsWithoutTime"] }, "c"],
  ])).catch(() => undefined);
  if (!answers) return undefined;
  const calendars = new Map((answers.get("c")!["list"] as (Calendar & Record<string, never>)[]).map((c) => [c.id, c]));
  const ofEvents = (answers.get("g")!["list"] as CalendarEvent[]).filter((e) => e.status !== "cancelled").flatMap((event): Alarm[] => {
    const calendar = calendars.get(Object.keys(event.calendarIds)[0] as Id);
    return dueTimes(event, alertsOf(event, calendar), zone).map((d) => ({ ...d, event }));
  });
  const ofTasks = ((answers.get("t")?.["list"] ?? []) as Task[]).flatMap((task): Alarm[] => taskTimes(task, zone).map((d) => ({ ...d, task })));
  return [...ofEvents, ...ofTasks].filter((d) => d.at > from && d.at <= to).sort((a, b) => a.at - b.at);
}

/** Watches for alarms, and calls ring for each that is due, once. The answer ends it. */
export function watchAlarms(zone: () => string, ring: (a: Alarm) => void): () => void {
  let timers: ReturnType<typeof setTimeout>[] = [];
  let from = client.now().getTime() - late;
  const look = async () => {
    if (!offers("urn:ietf:params:jmap:calendars")) return;
    const now = client.now().getTime();
    const found = await read(from, now + every + 30_000, isZone(zone()) ? zone() : "Etc/UTC");
    if (!found) return;
    for (const timer of timers) clearTimeout(timer);
    timers = found.map((a) => setTimeout(() => void claim(a, client.now().getTime()).then((mine) => { if (mine) ring(a); }), Math.max(0, a.at - client.now().getTime())));
    from = now - late;
  };
  let begun = false;
  const first = setTimeout(() => { begun = true; void look(); }, quiet);
  const again = setInterval(() => void look(), every);
  // On the page of the calendar a change is known at once.
  const changed = () => { if (begun) void look(); };
  const stops = [revision.subscribe(changed), tasksRead.subscribe(changed)];
  return () => {
    clearTimeout(first);
    clearInterval(again);
    for (const timer of timers) clearTimeout(timer);
    for (const stop of stops) stop();
  };
}
