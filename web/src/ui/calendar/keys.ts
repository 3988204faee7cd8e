// The keys of the calendar: one table for what they do and for the list of keys.

import { between, eventOf, mayWrite } from "../../state/calendars";
import { closeQuery, route } from "../../state/route";
import { menu, sheet, toasts } from "../../state/screen";
import type { KeyGroup } from "../keys";
import { taskOf } from "../../state/tasks";
import { tk } from "../../text/calendar";
import { tt } from "../../text/tasks";
import { asking, deleteEvent, editEvent, moveDays, moveEvent, newEvent, opened, openEvent } from "./open";
import { chooseList, shiftTask } from "./taskdrag";
import { deleteTask, newTask, openTask, tickTask } from "./taskopen";
import { day, days, paged, showView, stepDay, today, view, type View } from "./view";

const to = (v: View) => () => showView(v, day.value);
const focusedKey = () => (document.activeElement as HTMLElement | null)?.closest<HTMLElement>("[data-event]")?.dataset["event"] ?? "";
/** The event that keys are for: the one that has the focus, or is open. */
const concerned = () => eventOf(focusedKey()) ?? opened();

/** The task that has the focus. */
const task = () => taskOf((document.activeElement as HTMLElement | null)?.closest("li, .task-chip")?.querySelector<HTMLElement>("[data-task]")?.dataset["task"] ?? "");

function stepTask(by: number): void {
  const list = [...document.querySelectorAll<HTMLElement>(".tasks [data-task]")].filter((e) => e.offsetParent);
  const at = list.findIndex((e) => e.closest("li")!.contains(document.activeElement));
  list[at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.max(0, Math.min(list.length - 1, at + by))]?.focus();
}

function stepEvent(by: number): void {
  if (view.value === "month" && !focusedKey()) return stepDay(7 * by);
  const list = [...document.querySelectorAll<HTMLElement>(".calendar-view [data-event]")];
  const order = new Map(between(days.value[0]!, days.value.at(-1)!).map((s, i) => [s.key, i]));
  list.sort((a, b) => (order.get(a.dataset["event"]!) ?? 0) - (order.get(b.dataset["event"]!) ?? 0));
  const at = list.findIndex((e) => e.dataset["event"] === focusedKey());
  const next = list[at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.max(0, Math.min(list.length - 1, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

const quarter = 15 * 60_000;

/** Moves the event or the task that has the focus, or changes its length, by a key with Alt. */
function shift(minutes: number, dayCount: number, length: boolean): void {
  const x = task();
  if (x) return dayCount !== 0 ? shiftTask(x, dayCount) : undefined;
  const s = concerned();
  if (!s || !mayWrite(s.shelf)) return;
  if (dayCount !== 0) return moveDays(s, dayCount);
  if (!s.allDay) moveEvent(s, length ? s.from : s.from + minutes * quarter, s.to + minutes * quarter);
}

export const keys: KeyGroup[] = [
  {
    title: () => tk("keysView"), keys: [
      { keys: ["d"], text: () => tk("day"), run: to("day") },
      { keys: ["x"], text: () => tk("workweek"), run: to("workweek") },
      { keys: ["w"], text: () => tk("week"), run: to("week") },
      { keys: ["m"], text: () => tk("month"), run: to("month") },
      { keys: ["a"], text: () => tk("agenda"), run: to("agenda") },
      { keys: ["l"], text: () => tt("tasks"), run: to("tasks") },
    ],
  },
  {
    title: () => tk("keysMove"), keys: [
      { keys: ["t"], text: () => tk("today"), run: () => showView(view.value, today.value) },
      { keys: ["j"], text: () => tk("next"), run: () => showView(view.value, paged(1)) },
      { keys: ["k"], text: () => tk("previous"), run: () => showView(view.value, paged(-1)) },
      { keys: ["ArrowLeft", "ArrowRight"], text: () => tk("keyDayBack"), run: (key) => stepDay(key === "ArrowLeft" ? -1 : 1) },
      { keys: ["g i"], text: () => tk("goMail"), run: () => location.assign("/mail/inbox") },
      { keys: ["g o"], text: () => tk("goContacts"), run: () => location.assign("/contacts/") },
      { keys: ["?"], text: () => tk("keys"), run: () => (sheet.value = { kind: "help" }) },
    ],
  },
  {
    title: () => tk("keysEvent"), keys: [
      { keys: ["n", "c"], text: () => tk("newEvent"), run: () => (view.value === "tasks" ? newTask() : newEvent(day.value)) },
      { keys: ["/"], text: () => tk("keyQuick"), run: () => document.getElementById("quick")?.focus() },
      { keys: ["ArrowUp", "ArrowDown"], text: () => tk("keyEvents"), run: (key) => (view.value === "tasks" ? stepTask : stepEvent)(key === "ArrowUp" ? -1 : 1) },
      { keys: ["y"], text: () => tt("keyDone"), run: () => { const s = task(); if (s) void tickTask(s, !s.done); } },
      { keys: ["v"], text: () => tt("keyList"), run: () => { const s = task(); if (s) chooseList(s, document.activeElement!); } },
      { keys: ["Enter", "o"], text: () => tk("keyOpen"), run: () => { const x = task(); if (x) return openTask(x); const s = concerned(); if (s) openEvent(s, document.activeElement); } },
      { keys: ["e"], text: () => tk("edit"), run: () => { const x = task(); if (x) return openTask(x); const s = concerned(); if (s && mayWrite(s.shelf)) void editEvent(s); } },
      { keys: ["Alt+ArrowUp", "Alt+ArrowDown"], text: () => tk("keyShift"), run: (key) => shift(key.endsWith("Up") ? -1 : 1, 0, false) },
      { keys: ["Alt+ArrowLeft", "Alt+ArrowRight"], text: () => tk("keyShift"), run: (key) => shift(0, key.endsWith("Left") ? -1 : 1, false) },
      { keys: ["Alt+Shift+ArrowUp", "Alt+Shift+ArrowDown"], text: () => tk("keySize"), run: (key) => shift(key.endsWith("Up") ? -1 : 1, 0, true) },
      { keys: ["#", "Delete"], text: () => tk("keyDelete"), run: () => { const x = task(); if (x) return deleteTask(x); const s = concerned(); if (s && mayWrite(s.shelf)) void deleteEvent(s); } },
      { keys: ["z"], text: () => tk("keyUndo"), run: () => toasts.value.findLast((x) => x.action)?.action!.run() },
      { keys: ["Escape"], text: () => tk("keyClose"), run: () => { if (route.value.query["event"]) closeQuery("event"); } },
    ],
  },
];

/** Reports if keys are for something that lies above the view. */
export const covered = (): boolean => !!sheet.value || !!menu.value || !!asking.value || !!route.value.query["edit"] || !!route.value.query["task"];

