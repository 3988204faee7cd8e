// Shows the alerts of events, on any page of the client: as a notification of the desktop where that is allowed, and on the page.

import { viewZone } from "../state/calendars";
import { watchAlarms, type Alarm } from "../state/alarms";
import { preferences } from "../state/prefs";
import { say } from "../state/screen";
import { tk } from "../text/calendar";
import { isZone, localTime } from "../state/zone";
import { formatter } from "./calendar/view";

function when(a: Alarm): string {
  const e = a.event;
  if (e.showWithoutTime) return formatter({ weekday: "long", month: "long", day: "numeric", timeZone: "UTC" }).format(new Date(`${e.start}Z`));
  const at = e.utcStart ? new Date(e.utcStart) : new Date(`${e.start}Z`);
  return formatter({ weekday: "short", hour: "numeric", minute: "2-digit", timeZone: e.utcStart ? viewZone.value : "UTC" }).format(at);
}

function dayOf(a: Alarm): string {
  const e = a.event;
  return (isZone(e.timeZone) && e.utcStart && !e.showWithoutTime ? localTime(Date.parse(e.utcStart), viewZone.value) : e.start).slice(0, 10);
}

function ring(a: Alarm): void {
  const title = a.event.title?.trim() || tk("noTitle");
  const place = Object.values(a.event.locations ?? {})[0]?.name ?? "";
  const words = [when(a), place].filter(Boolean).join(" · ");
  const show = () => location.assign(`/calendar/day/${dayOf(a)}`);
  say(tk("alarm", title, words), { text: tk("alarmShow"), run: show }, 60);
  if (!preferences.peek().notify || typeof Notification === "undefined" || Notification.permission !== "granted") return;
  const n = new Notification(title, { body: words, tag: a.key });
  n.onclick = () => {
    focus();
    show();
  };
}

export const startAlarms = (): (() => void) => watchAlarms(() => viewZone.peek(), ring);
