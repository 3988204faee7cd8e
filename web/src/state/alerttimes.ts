// When the alerts of events and tasks come.

import { signal } from "@preact/signals";
import type { Alert, Calendar, CalendarEvent } from "../jmap/calendar";
import type { Task } from "../jmap/tasks";
import { parseDuration } from "./days";
import { instant, isZone } from "./zone";

export interface Due {
  /** Names the alert of one instance, in all browsers alike. */
  key: string;
  at: number;
}

interface Defaults {
  defaultAlertsWithTime?: Record<string, Alert> | null;
  defaultAlertsWithoutTime?: Record<string, Alert> | null;
}

/** The alerts that count for an event: its own, or those of its calendar. Alerts by mail are the server's. */
export function alertsOf(e: Pick<CalendarEvent, "alerts" | "useDefaultAlerts" | "showWithoutTime">, calendar: (Partial<Calendar> & Defaults) | undefined): Record<string, Alert> {
  const usual = (e.showWithoutTime ? calendar?.defaultAlertsWithoutTime : calendar?.defaultAlertsWithTime) ?? {};
  const all = e.useDefaultAlerts ? usual : (e.alerts ?? {});
  return Object.fromEntries(Object.entries(all).filter(([, a]) => (a.action ?? "display") === "display" && !(a as { acknowledged?: string }).acknowledged));
}

/** The moments of the alerts of an event. zone is that of events without one. */
export function dueTimes(e: CalendarEvent, alerts: Record<string, Alert>, zone: string): Due[] {
  const own = isZone(e.timeZone) ? e.timeZone : zone;
  const start = e.utcStart && !e.showWithoutTime ? Date.parse(e.utcStart) : instant(e.start, own);
  const { days, ms } = parseDuration(e.duration);
  const end = e.utcEnd && !e.showWithoutTime ? Date.parse(e.utcEnd) : start + days * 86_400_000 + ms;
  return moments(`${e.uid} ${e.start}`, alerts, start, end);
}

/** The moments of the alerts of a task that is open. It ends when it is due; one without a start begins then too. */
export function taskTimes(t: Task, zone: string): Due[] {
  const from = t.start ?? t.due, to = t.due ?? t.start;
  if (!from || !to || t.progress === "completed" || t.progress === "cancelled") return [];
  const own = isZone(t.timeZone) ? t.timeZone : zone;
  return moments(`${t.uid} ${from}`, alertsOf({ alerts: t.alerts ?? null }, undefined), instant(from, own), instant(to, own));
}

const moments = (name: string, alerts: Record<string, Alert>, start: number, end: number): Due[] =>
  Object.entries(alerts).flatMap(([id, a]) => {
    const at = momentOf(a, start, end);
    return Number.isNaN(at) ? [] : [{ key: `${name} ${id} ${at}`, at }];
  });

/** Grows when the tasks were read again: their alerts may be others. */
export const tasksRead = signal(0);

function momentOf(a: Alert, start: number, end: number): number {
  if (a.trigger.when) return Date.parse(a.trigger.when);
  const offset = a.trigger.offset ?? "";
  if (!/^[-+]?P/u.test(offset)) return Number.NaN;
  const { days, ms } = parseDuration(offset.replace(/^[-+]/u, ""));
  const by = days * 86_400_000 + ms;
  return (a.trigger.relativeTo === "end" ? end : start) + (offset.startsWith("-") ? -by : by);
}
