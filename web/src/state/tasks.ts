// The task lists that the person may see and their tasks: in memory, and kept in the browser for when the server does not answer.

import { batch, computed, signal } from "@preact/signals";
import { ref, refusalIn, whyOf } from "../jmap/client";
import { taskProperties, type Task, type TaskList } from "../jmap/tasks";
import type { Call, Id } from "../jmap/types";
import { tasksRead } from "./alerttimes";
import { keyOf, viewZone } from "./calendars";
import { addDays, daysBetween, type Day } from "./days";
import * as db from "./db";
import { defer } from "./deferred";
import type { Problem } from "./events";
import { hueOf } from "./hue";
import { Meanwhile } from "./meanwhile";
import { amend, applied, asChanged, keyNow, newID, onRead, overlay, perform, presumed, takeCreation, type Performed, type Standing } from "./objects";
import { flush, intend, load } from "./outbox";
import { attempt, client, follow, home, offers, persistent, session } from "./session";
import { instant, isZone, localTime } from "./zone";

export const tasksCapability = "urn:ietf:params:jmap:tasks";

/** A task list with its account: ids are of one account only. owner is "" for one's own. */
export interface Listed extends TaskList {
  key: string;
  account: Id;
  owner: string;
  hue: number;
}

export const taskLists = signal<Listed[]>([]);
export const mayWriteList = (l: Listed | undefined): boolean => !!l && (l.myRights.mayWriteAll || l.myRights.mayWriteOwn);
const own = (l: Listed) => l.owner === "";
/** The list for new tasks. */
export const defaultList = computed(() => taskLists.value.find((l) => own(l) && l.role === "inbox") ?? taskLists.value.find((l) => own(l) && mayWriteList(l)));

/** A task as it is shown: one that repeats is shown by its instances, each by itself. */
export interface ShownTask {
  key: string;
  account: Id;
  task: Task;
  list: Listed;
  /** The day on which it is due in the viewer's zone, undefined for none; at is the moment, undefined for a day as a whole. */
  day: Day | undefined;
  at: number | undefined;
  done: boolean;
  repeats: boolean;
  /** It is shown as the person changed it, which the server does not know yet; "" for no change. */
  standing: Standing | "";
}

interface Kept {
  account: Id;
  task: Task;
}

const read = signal<Kept[]>([]);
const changed = overlay<Task>("Task");
/** Neither the server nor the browser has told the tasks. */
export const unknownTasks = signal(false);

export const isDone = (t: Pick<Task, "progress">): boolean => t.progress === "completed" || t.progress === "cancelled";

function shown({ account, task }: Kept, standing: ShownTask["standing"] = ""): ShownTask | undefined {
  const list = taskLists.value.find((l) => l.account === account && l.id === task.taskListId);
  if (!list) return undefined;
  const due = task.due ?? task.start ?? undefined;
  const zone = viewZone.value;
  const at = due && !task.showWithoutTime ? instant(due, isZone(task.timeZone) ? task.timeZone : zone) : undefined;
  return {
    key: keyOf(account, task.id), account, task, list, at, day: at === undefined ? due?.slice(0, 10) : localTime(at, zone).slice(0, 10),
    done: isDone(task), repeats: !!task.recurrenceId || !!task.recurrenceRules?.length, standing,
  };
}

const byDue = (a: ShownTask, b: ShownTask) =>
  (a.day ?? "9").localeCompare(b.day ?? "9") || (a.at ?? 0) - (b.at ?? 0) || (a.task.priority || 10) - (b.task.priority || 10) || (a.task.title ?? "").localeCompare(b.task.title ?? "");

/** All tasks and instances in the order of their due times. */
export const allTasks = computed<ShownTask[]>(() => {
  const by = new Map(read.value.map((k) => [keyOf(k.account, k.task.id), shown(k)]));
  const known = new Set(read.value.map((k) => keyOf(k.account, newID(k.task.uid))));
  for (const [key, { object, standing }] of changed.value) {
    if (!object) by.delete(key);
    else if (!known.has(key)) by.set(key, shown({ account: key.slice(0, key.indexOf("/")), task: object }, standing)); // a new one may be read before its answer comes
  }
  return [...by.values()].filter((s) => s !== undefined).sort(byDue);
});

export const taskOf = (key: string): ShownTask | undefined => allTasks.value.find((s) => s.key === key) ?? allTasks.value.find((s) => s.key === keyNow(key));

/** The tasks of visible lists that are due on the days from first to last. */
export const tasksBetween = (first: Day, last: Day): ShownTask[] =>
  allTasks.value.filter((s) => s.list.isVisible && s.day !== undefined && s.day >= first && s.day <= last && s.task.progress !== "cancelled");

/** The tasks of the visible lists as one list has them: of one that repeats, the first instance that is open, and those that are done. */
export const listedTasks = computed<ShownTask[]>(() => {
  const seen = new Set<string>();
  return allTasks.value.filter((s) => {
    if (!s.list.isVisible) return false;
    const series = s.task.baseTaskId;
    if (s.done || !series) return true;
    const key = keyOf(s.account, series);
    return !seen.has(key) && !!seen.add(key);
  });
});

const accounts = (): Id[] => Object.entries(session.value?.accounts ?? {}).filter(([, a]) => tasksCapability in a.accountCapabilities).map(([id]) => id).slice(0, 20);

let opening: Promise<void> | null = null;

/** Begins: what the browser keeps, then what the server says. */
export const openTasks = (): Promise<void> => (opening ??= begin());

async function begin(): Promise<void> {
  onRead("Task", readTasks);
  await load();
  const [lists, tasks] = await Promise.all([db.get<Listed[]>("facts", "taskLists"), db.get<Kept[]>("facts", "tasks")]);
  if (states.size === 0) batch(() => { taskLists.value = lists ?? []; read.value = tasks ?? []; });
  if (!offers(tasksCapability)) {
    unknownTasks.value = taskLists.value.length === 0;
    return;
  }
  follow(["TaskList", "Task"], hear, refreshTasks);
  await refreshTasks();
  void flush();
}

/** The states of what was read, by account. */
const states = new Map<Id, { lists: string; tasks: string }>();

/** Reads again if a list or a task changed: a change of an event moves the states of tasks too (doc/jmap.md). */
async function hear(): Promise<unknown> {
  const known = [...states];
  if (reading || known.length === 0) return refreshTasks();
  const answers = await attempt(() => client.calls(known.flatMap(([accountId, of]): Call[] => [
    ["TaskList/changes", { accountId, sinceState: of.lists }, `l${accountId}`],
    ["Task/changes", { accountId, sinceState: of.tasks }, `t${accountId}`],
  ]))).catch(() => undefined);
  const changed = (a: Record<string, unknown>) => a["hasMoreChanges"] || ["created", "updated", "destroyed"].some((kind) => (a[kind] as Id[]).length > 0);
  if (!answers || [...answers.values()].some(changed)) return refreshTasks();
  for (const [id] of known) states.set(id, { lists: answers.get(`l${id}`)!["newState"] as string, tasks: answers.get(`t${id}`)!["newState"] as string });
}

/** So many open tasks of an account are read, so many that are done, and so many instances. */
const mostOpen = 500;
const mostDone = 100;
const mostInstances = 2000;
const getAtOnce = 250;

/** The days around today for which instances are read; days that the calendar shows are added. */
const past = 30, ahead = 62;
let wanted: [Day, Day] | undefined;

/** Reads the instances of other days too, which the calendar shows. */
export async function showTaskDays(first: Day, last: Day): Promise<void> {
  const [from, to] = wanted ?? around();
  wanted = [first < from ? first : from, last > to ? last : to];
  if (daysBetween(...wanted) > 700) wanted = [first, last];
  if (first < from || last > to) await refreshTasks();
}

function around(): [Day, Day] {
  const today = localTime(client.now().getTime(), viewZone.peek()).slice(0, 10);
  return [addDays(today, -past), addDays(today, ahead)];
}

/** Counts the changes of the person, and what was asked since. */
let edits = 0;
let reading: Promise<boolean> | undefined;

function readTasks(): Promise<boolean> {
  edits++;
  return (reading ??= readAgain());
}

/** Reads lists and tasks again: once for all who ask meanwhile. */
export const refreshTasks = persistent(readTasks);

/** Reads until nothing was asked since the last question, the time included in which the browser keeps the answer. */
async function readAgain(): Promise<boolean> {
  await null; // reading is set
  try {
    for (;;) {
      const before = edits;
      const told = await readOnce(before);
      if (!told || before === edits) return told;
    }
  } finally {
    reading = undefined;
  }
}

/** Reads once. False: the server did not answer. */
async function readOnce(before: number): Promise<boolean> {
  const found = offers(tasksCapability) ? await attempt(fetchTasks).catch(() => undefined) : undefined;
  if (!found || edits !== before) states.clear(); // they may belong to an answer that is not shown
  // An answer from before a change of the person does not undo it on the screen.
  if (found && edits !== before) return true;
  if (found) batch(() => { taskLists.value = found.lists; read.value = found.tasks; });
  unknownTasks.value = !found && taskLists.value.length === 0;
  if (!found) return false;
  tasksRead.value++;
  await db.put("facts", "taskLists", taskLists.value);
  await db.put("facts", "tasks", found.tasks);
  return true;
}

const open = { operator: "OR", conditions: [{ progress: "needs-action" }, { progress: "in-process" }, { progress: "failed" }] };

async function fetchTasks(): Promise<{ lists: Listed[]; tasks: Kept[] }> {
  const all = accounts();
  const answers = await client.calls(all.flatMap((accountId): Call[] => [
    ["TaskList/get", { accountId, ids: null }, `l${accountId}`],
    ["Task/query", { accountId, filter: open, limit: mostOpen }, `o${accountId}`],
    ["Task/get", { accountId, "#ids": ref(`o${accountId}`, "Task/query", "/ids"), properties: taskProperties }, `t${accountId}`],
    ["Task/query", { accountId, filter: { progress: "completed" }, sort: [{ property: "updated", isAscending: false }], limit: mostDone }, `d${accountId}`],
    ["Task/get", { accountId, "#ids": ref(`d${accountId}`, "Task/query", "/ids"), properties: taskProperties }, `e${accountId}`],
  ]));
  const lists = listsOf(all, answers);
  states.clear();
  for (const id of all) states.set(id, { lists: answers.get(`l${id}`)!["state"] as string, tasks: answers.get(`t${id}`)!["state"] as string });
  const out: Kept[] = [];
  for (const account of all) {
    const list = [...(answers.get(`t${account}`)!["list"] as Task[]), ...(answers.get(`e${account}`)!["list"] as Task[])];
    for (const task of list) if (!task.recurrenceRules?.length) out.push({ account, task });
    const series = new Set(list.filter((x) => x.recurrenceRules?.length).map((x) => x.id));
    if (series.size > 0) out.push(...(await fetchInstances(account, series)).map((task) => ({ account, task })));
  }
  return { lists, tasks: out };
}

/** Reads the instances of tasks that repeat. Those of no such instance in the days that are read are shown by what comes next. */
async function fetchInstances(accountId: Id, series: Set<Id>): Promise<Task[]> {
  const [from, to] = wanted ?? around();
  const query = async (filter: object): Promise<Task[]> => {
    const found = await client.call("Task/query", { accountId, filter, expandRecurrences: true, timeZone: viewZone.peek(), limit: 5000 });
    const ids = (found["ids"] as Id[]).filter((id) => id.includes("-")).slice(0, mostInstances);
    const out: Task[] = [];
    for (let i = 0; i < ids.length; i += getAtOnce) out.push(...((await client.call("Task/get", { accountId, ids: ids.slice(i, i + getAtOnce), properties: taskProperties }))["list"] as Task[]));
    return out;
  };
  const out = await query({ after: `${from}T00:00:00`, before: `${to}T00:00:00` });
  const waits = new Set(out.filter((t) => !isDone(t)).map((t) => t.baseTaskId));
  if ([...series].some((id) => !waits.has(id))) {
    const later = await query({ after: `${to}T00:00:00`, before: `${addDays(to, 600)}T00:00:00`, progress: "needs-action" });
    for (const t of later.sort((a, b) => (a.start ?? "").localeCompare(b.start ?? ""))) {
      if (waits.has(t.baseTaskId)) continue;
      waits.add(t.baseTaskId);
      out.push(t);
    }
  }
  return out;
}

const hueOfName = (s: string) => [...s].reduce((h, c) => (h * 31 + c.charCodeAt(0)) % 360, 7);

function listsOf(all: Id[], answers: Map<string, Record<string, unknown>>): Listed[] {
  const out: Listed[] = [];
  for (const account of all) {
    const owner = account === home.value ? "" : (session.value?.accounts[account]?.name ?? "");
    for (const l of answers.get(`l${account}`)!["list"] as TaskList[]) out.push(changing.of(keyOf(account, l.id), { ...l, key: keyOf(account, l.id), account, owner, hue: hueOf(l.color, hueOfName(l.id)) }));
  }
  return out.sort((a, b) => a.owner.localeCompare(b.owner) || a.sortOrder - b.sortOrder || a.name.localeCompare(b.name));
}

/** Carries changes of tasks out. */
async function set(account: Id, { known, ...change }: { create?: Record<string, object>; update?: Record<Id, TaskPatch>; known: Task[]; shows: [string, Task | null][]; title: string | undefined }): Promise<Performed | Problem> {
  const was = presumed("Task", change.update ?? {}, [], new Map(known.map((x) => [x.id, x])));
  const done = await perform({ account, type: "Task", ...change, was });
  return "why" in done ? { offline: false, text: done.why } : done;
}

export type TaskPatch = Partial<Omit<Task, "id" | "uid">>;

/** Creates a task, and returns its id. */
export async function createTask(list: Pick<Listed, "account" | "id">, patch: TaskPatch): Promise<Id | Problem> {
  const task = { uid: crypto.randomUUID(), taskListId: list.id, ...patch };
  const id = newID(task.uid);
  const done = await set(list.account, { create: { t: { "@type": "Task", ...task } }, known: [], shows: [[keyOf(list.account, id), { ...task, id }]], title: patch.title });
  return "created" in done ? (done.created["t"]?.id ?? id) : done;
}

/** Creates a task in the usual list for a page that shows no tasks, and returns its key; undefined: there is no list. */
export async function createApart(patch: TaskPatch): Promise<string | Problem | undefined> {
  const account = home.value;
  const answer = await attempt(() => client.call("TaskList/get", { accountId: account, ids: null, properties: ["id", "role", "myRights"] })).catch(() => undefined);
  const lists = answer ? (answer["list"] as TaskList[]) : (await db.get<Listed[]>("facts", "taskLists"))?.filter(own);
  if (!lists) return { offline: true };
  const list = lists.find((l) => l.role === "inbox") ?? lists.find((l) => l.myRights.mayWriteAll);
  if (!list) return undefined;
  const made = await createTask({ account, id: list.id }, patch);
  return typeof made === "string" ? keyOf(account, made) : made;
}

/** Changes a task: that of an id, which may be the series of what is shown; whole is that one, as far as it is known. */
export async function changeTask(s: ShownTask, patch: TaskPatch, id: Id = s.task.id, whole: Task = s.task): Promise<Problem | undefined> {
  if (await amend(s.account, id, patch)) return undefined;
  const done = await set(s.account, { update: { [id]: patch }, known: whole.id === id ? [whole] : [], shows: [[s.key, applied(s.task, patch)]], title: s.task.title });
  return "created" in done ? undefined : done;
}

/** Marks a task as done, or as not done. */
export const tick = (s: ShownTask, done: boolean): Promise<Problem | undefined> =>
  changeTask(s, done ? { progress: "completed", percentComplete: 100 } : { progress: "needs-action", percentComplete: null });

/** The task of an id as the server has it. */
export async function readTask(account: Id, id: Id): Promise<Task | undefined> {
  const answer = await attempt(() => client.call("Task/get", { accountId: account, ids: [id] }));
  const task = (answer?.["list"] as Task[] | undefined)?.[0];
  return task && asChanged("Task", account, task);
}

/** Deletes a task, or with all its series, after some seconds. The answer takes it back until then. */
export async function removeTask(s: ShownTask, all: boolean, seconds: number, failed: (p: Problem) => void): Promise<() => void> {
  const creation = await takeCreation(s.account, s.task.id);
  if (creation) return () => void intend(creation);
  const id = all ? (s.task.baseTaskId ?? s.task.id) : s.task.id;
  const gone = allTasks.peek().filter((x) => x.account === s.account && (x.key === s.key || (all && x.task.baseTaskId === id)));
  const was = presumed("Task", {}, [id], new Map([[s.task.id, s.task]]));
  return defer({ account: s.account, type: "Task", destroy: [id], was, shows: gone.map((x): [string, null] => [x.key, null]), title: s.task.title }, seconds, (text) => failed({ offline: false, text }));
}

/** Moves a task to another list of its account. */
export const moveTask = (s: ShownTask, list: Listed): Promise<Problem | undefined> => changeTask(s, { taskListId: list.id }, s.task.baseTaskId ?? s.task.id);

/** Creates, changes or deletes task lists. */
export async function setLists(account: Id, args: object): Promise<Problem | undefined> {
  try {
    const answer = await attempt(() => client.call("TaskList/set", { accountId: account, ...args }));
    const bad = answer && refusalIn(answer);
    await refreshTasks();
    return !answer ? { offline: true } : bad && { offline: false, text: whyOf(bad) };
  } catch (e) {
    return { offline: false, text: e instanceof Error ? e.message : String(e) };
  }
}

/** Lists that the person shows or hides. */
const changing = new Meanwhile<Listed>();

/** Shows or hides the tasks of a list: on the screen at once. */
export async function showList(l: Listed, isVisible: boolean): Promise<Problem | undefined> {
  taskLists.value = taskLists.value.map((x) => (x.key === l.key ? { ...x, isVisible } : x));
  const bad = await changing.during(l.key, { isVisible }, () => setLists(l.account, { update: { [l.id]: { isVisible } } }));
  if (bad) taskLists.value = taskLists.value.map((x) => (x.key === l.key ? changing.of(l.key, { ...x, isVisible: l.isVisible }) : x));
  return bad;
}
