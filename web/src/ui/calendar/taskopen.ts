// The person's deeds on tasks: to tick, open, delete and take back.

import type { Task } from "../../jmap/tasks";
import type { Id } from "../../jmap/types";
import { viewZone } from "../../state/calendars";
import type { Day } from "../../state/days";
import type { Problem } from "../../state/events";
import { preferences } from "../../state/prefs";
import { closeQuery, goQuery } from "../../state/route";
import { say } from "../../state/screen";
import { attempt, client, home } from "../../state/session";
import { allTasks, createTask, defaultList, mayWriteList, openTasks, removeTask, taskOf, tick, type ShownTask, type TaskPatch } from "../../state/tasks";
import { t } from "../../text";
import { tt } from "../../text/tasks";
import { localAt, tell } from "./open";
import { dayText, timeText } from "./view";

export const nameOf = (s: { task: Pick<Task, "title"> }): string => s.task.title?.trim() || t("noSubject");

const failed = (p: Problem | undefined) => { if (p) tell(p); return !!p; };

/** Marks a task as done or not, and offers to take that back. */
export async function tickTask(s: ShownTask, done: boolean): Promise<void> {
  if (!mayWriteList(s.list)) return;
  if (failed(await tick(s, done))) return;
  say(tt(done ? "isDone" : "isOpen", nameOf(s)), { text: t("undo"), run: () => {
    const now = taskOf(s.key); // as this change leaves it, also while it waits for the server
    void tick(now ?? { ...s, done }, !done).then(failed);
  } });
}

/** The properties of a due time in the viewer's zone: on a day, or at minutes after its midnight. */
export function dueAt(day: Day | undefined, minutes?: number): TaskPatch {
  if (!day) return { due: null, showWithoutTime: false, timeZone: null };
  if (minutes === undefined) return { due: `${day}T00:00:00`, showWithoutTime: true, timeZone: null };
  return { due: localAt(day, minutes), showWithoutTime: false, timeZone: viewZone.value };
}

/** Creates a task in the usual list, and offers to take it back. False: there is none, and the person was told why. */
export async function addAtOnce(patch: TaskPatch): Promise<boolean> {
  await openTasks();
  const list = defaultList.value;
  const made = list && (await createTask(list, patch));
  if (!list) say(tt("notOffered"));
  else if (typeof made !== "string") tell(made!);
  if (!list || typeof made !== "string") return false;
  say(tt("created", patch.title ?? ""), {
    text: t("undo"), run: () => {
      const s = allTasks.value.find((x) => x.account === list.account && x.task.id === made);
      if (s) void removeTask(s, true, 0, tell);
    },
  });
  return true;
}

export const openTask = (s: ShownTask): void => goQuery({ task: s.key, event: "" });
export const newTask = (): void => goQuery({ task: "new", event: "" });

/** Deletes a task with all its times; once: this time alone is left out. */
export async function deleteTask(s: ShownTask, once = false): Promise<void> {
  if (!mayWriteList(s.list)) return;
  closeQuery("task");
  const seconds = Math.max(4, preferences.value.undoSeconds);
  const back = await removeTask(s, !once, seconds, tell);
  say(tt(once ? "skipped" : "deleted", nameOf(s)), { text: t("undo"), run: back }, seconds);
}

/** When a task is due, in words; "" for never. */
export function dueText(s: ShownTask): string {
  if (!s.day) return "";
  const day = dayText(s.day, { weekday: "short", day: "numeric", month: "short" });
  return s.at === undefined ? day : `${day}, ${timeText(s.at)}`;
}

/** The Message-ID of the message that a task came of, "" for none (RFC 2392). */
export function messageOf(task: Task): string {
  const href = Object.values(task.links ?? {}).find((l) => /^mid:[^/]+$/iu.test(l.href))?.href ?? "";
  try {
    return decodeURIComponent(href.slice(4));
  } catch {
    return "";
  }
}

/** Opens the message of a task, wherever it is in the person's mail. */
export async function openMessage(id: string): Promise<void> {
  const answers = await attempt(() => client.calls([
    ["Email/query", { accountId: home.value, filter: { header: ["Message-ID", id] }, limit: 1 }, "q"],
    ["Email/get", { accountId: home.value, "#ids": { resultOf: "q", name: "Email/query", path: "/ids" }, properties: ["id", "mailboxIds"] }, "g"],
  ]));
  const found = (answers?.get("g")?.["list"] as { id: Id; mailboxIds: Record<Id, boolean> }[] | undefined)?.[0];
  if (!found) return void say(tt("messageGone"));
  location.assign(`/mail/~${Object.keys(found.mailboxIds)[0]}?message=${encodeURIComponent(found.id)}`);
}
