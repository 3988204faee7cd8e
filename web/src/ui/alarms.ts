// Shows the alerts of events and tasks, on any page of the client: as a notification of the desktop where that is allowed, and on the page.

import type { CalendarEvent } from "../jmap/calendar";
import type { Task } from "../jmap/tasks";
import { viewZone } from "../state/calendars";
import { watchAlarms, type Alarm } from "../state/alarms";
import { preferences } from "../state/prefs";
import { say } from "../state/screen";
import { tk } from "../text/calendar";
import { home } from "../state/session";
import { instant, isZone, localTime } from "../state/zone";
import { formatter } from "./calendar/view";

function when(e: CalendarEvent): string {
  if (e.showWithoutTime) return formatter({ weekday: "long", month: "long", day: "numeric", timeZone: "UTC" }).format(new Date(`${e.start}Z`));
  const at = e.utcStart ? new Date(e.utcStart) : new Date(`${e.start}Z`);
  return formatter({ weekday: "short", hour: "numeric", minute: "2-digit", timeZone: e.utcStart ? viewZone.value : "UTC" }).format(at);
}

function dayOf(e: CalendarEvent): string {
  return (isZone(e.timeZone) && e.utcStart && !e.showWithoutTime ? localTime(Date.parse(e.utcStart), viewZone.value) : e.start).slice(0, 10);
}

/** When a task is due, in words. */
function dueText(x: Task): string {
  const local = x.due ?? x.start ?? "";
  if (x.showWithoutTime) return formatter({ weekday: "long", month: "long", day: "numeric", timeZone: "UTC" }).format(new Date(`${local}Z`));
  const at = instant(local, isZone(x.timeZone) ? x.timeZone : viewZone.value);
  return formatter({ weekday: "short", hour: "numeric", minute: "2-digit", timeZone: viewZone.value }).format(at);
}

/** The words of an alarm, and the address that it leads to. */
function contentsOf(a: Alarm): { title: string; words: string; address: string } {
  if ("task" in a) {
    const address = `/calendar/tasks?task=${encodeURIComponent(`${home.peek()}/${a.task.id}`)}`;
    return { title: a.task.title?.trim() || tk("noTitle"), words: tk("taskDue", dueText(a.task)), address };
  }
  const place = Object.values(a.event.locations ?? {})[0]?.name ?? "";
  return { title: a.event.title?.trim() || tk("noTitle"), words: [when(a.event), place].filter(Boolean).join(" · "), address: `/calendar/day/${dayOf(a.event)}` };
}

function ring(a: Alarm): void {
  const { title, words, address } = contentsOf(a);
  const show = () => location.assign(address);
  say(tk("alarm", title, words), { text: tk("alarmShow"), run: show }, 60);
  if (!preferences.peek().notify || typeof Notification === "undefined" || Notification.permission !== "granted") return;
  const n = new Notification(title, { body: words, tag: a.key });
  n.onclick = () => {
    focus();
    show();
  };
}

export const startAlarms = (): (() => void) => watchAlarms(() => viewZone.peek(), ring);
