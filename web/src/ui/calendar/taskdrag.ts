// Tasks are moved to another list or another day: by dragging, or by keys.

import { signal } from "@preact/signals";
import { addDays, daysBetween, type Day } from "../../state/days";
import { openMenu, say } from "../../state/screen";
import { changeTask, mayWriteList, moveTask, taskLists, taskOf, type Listed, type ShownTask, type TaskPatch } from "../../state/tasks";
import { t } from "../../text";
import { tk } from "../../text/calendar";
import { tt } from "../../text/tasks";
import { dayBelow } from "./drag";
import { tell } from "./open";
import { dueAt, nameOf } from "./taskopen";
import { dayText, today } from "./view";

/** The task that is dragged. */
export const dragged = signal<ShownTask | null>(null);

/** The properties of the element of a task, which can be dragged. */
export const draggable = (s: ShownTask) => ({
  draggable: mayWriteList(s.list),
  onDragStart: (e: DragEvent) => {
    e.dataTransfer!.effectAllowed = "move";
    e.dataTransfer!.setData("text/plain", nameOf(s)); // Firefox drags nothing without data
    // The browser takes its picture first: what is drawn anew now would end the drag.
    setTimeout(() => (dragged.value = s));
  },
  onDragEnd: () => {
    dragged.value = null;
    light(null);
  },
});

let lit: Element | null = null;

/** Marks the element that would take the task. */
function light(e: Element | null): void {
  if (e === lit) return;
  lit?.classList.remove("drop");
  e?.classList.add("drop");
  lit = e;
}

/** The properties of an element that takes a dragged task. to returns the part of it below the pointer, and its work on the task. */
function takes(to: (e: DragEvent, s: ShownTask) => { part: Element; done: () => unknown } | undefined) {
  const at = (e: DragEvent) => (dragged.value ? to(e, dragged.value) : undefined);
  return {
    onDragOver: (e: DragEvent) => {
      const target = at(e);
      light(target?.part ?? null);
      if (target) e.preventDefault();
    },
    onDragLeave: () => light(null),
    onDrop: (e: DragEvent) => {
      const target = at(e);
      light(null);
      if (!target) return;
      e.preventDefault();
      target.done();
    },
  };
}

const mayGoTo = (s: ShownTask, l: Listed): boolean => l.account === s.account && l.key !== s.list.key && mayWriteList(l) && mayWriteList(s.list);

/** The element of a list takes tasks of other lists of its account. */
export const listTakes = (l: Listed) => takes((e, s) => (mayGoTo(s, l) ? { part: e.currentTarget as Element, done: () => toList(s, l) } : undefined));

/** The elements that stand for days take tasks; "" stands for no day. */
export const daysTake = takes((e, s) => {
  const part = dayBelow(e.clientX, e.clientY);
  const day = part?.dataset["day"];
  return part && day !== undefined && day !== (s.day ?? "") ? { part, done: () => toDay(s, day) } : undefined;
});

async function toList(s: ShownTask, l: Listed): Promise<void> {
  const bad = await moveTask(s, l);
  if (bad) return tell(bad);
  const back = () => { const now = taskOf(s.key); if (now) void moveTask(now, s.list).then((p) => p && tell(p)); };
  say(tk("moved", nameOf(s), l.name), { text: t("undo"), run: back });
}

/** Moves a task to a day, or with "" to none. Its time of the day stays, and its start moves along. One that repeats stays on its days. */
async function toDay(s: ShownTask, day: Day | ""): Promise<void> {
  if (s.repeats) return void say(tk("cannotMove"));
  const { due = null, start = null, timeZone = null, showWithoutTime = false } = s.task;
  const by = day && s.day ? daysBetween(s.day, day) : 0;
  const shifted = (local: string | null) => local && addDays(local.slice(0, 10), by) + local.slice(10);
  const patch: TaskPatch = day && s.day ? { ...(due ? { due: shifted(due) } : {}), ...(start ? { start: shifted(start) } : {}) } : { ...dueAt(day || undefined), ...(start ? { start: null } : {}) };
  const bad = await changeTask(s, patch);
  if (bad) return tell(bad);
  const back = () => { const now = taskOf(s.key); if (now) void changeTask(now, { due, start, timeZone, showWithoutTime }).then((p) => p && tell(p)); };
  say(tk("moved", nameOf(s), day ? dayText(day, { weekday: "short", day: "numeric", month: "short" }) : tt("dueNone")), { text: t("undo"), run: back });
}

/** Moves a task by days; one that is never due becomes due today. */
export function shiftTask(s: ShownTask, by: number): void {
  if (mayWriteList(s.list)) void toDay(s, s.day ? addDays(s.day, by) : today.value);
}

/** Offers the other lists for a task. */
export function chooseList(s: ShownTask, at: Element): void {
  const lists = taskLists.value.filter((l) => mayGoTo(s, l));
  if (lists.length > 0) openMenu(at, lists.map((l) => ({ text: l.name, icon: "list", hue: l.hue, run: () => void toList(s, l) })));
}
