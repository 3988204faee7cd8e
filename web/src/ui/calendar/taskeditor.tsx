// The editor of a task. Of one that repeats it changes the series; the check mark alone is for one time. Without the server the series is
// not known, and the editor changes one time.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { CalendarEvent } from "../../jmap/calendar";
import type { Progress, Task } from "../../jmap/tasks";
import { viewZone } from "../../state/calendars";
import { addDays, type Day } from "../../state/days";
import { firstFitting, readRepeat, rulesOf, shiftSeries, type Repeat } from "../../state/recur";
import { closeQuery, route } from "../../state/route";
import { say } from "../../state/screen";
import { changeTask, createTask, defaultList, mayWriteList, moveTask, openTasks, readTask, refreshTasks, showTaskDays, taskLists, taskOf, type ShownTask, type TaskPatch } from "../../state/tasks";
import { alertAt, readAlert } from "../../state/written";
import { instant, isZone, localTime } from "../../state/zone";
import { t } from "../../text";
import { tk } from "../../text/calendar";
import { tt } from "../../text/tasks";
import { Frame } from "../above";
import { Icon } from "../icons";
import { tell } from "./open";
import { RepeatFields } from "./repeat";
import { AlertSelect } from "./alert";
import { deleteTask, dueAt, dueText, messageOf, openMessage } from "./taskopen";
import { days, today } from "./view";

interface Form {
  title: string;
  list: string;
  day: Day | "";
  time: string;
  priority: number;
  progress: Progress;
  notes: string;
  repeat: Repeat;
  /** Minutes before it is due, "none", or "asBefore" for what the editor has no words for. */
  alert: number | "none" | "asBefore";
}

const priorities = [{ n: 0, text: "priorityNone" }, { n: 1, text: "priorityHigh" }, { n: 5, text: "priorityMedium" }, { n: 9, text: "priorityLow" }] as const;
const states: Progress[] = ["needs-action", "in-process", "completed", "cancelled"];

/** The due time of a task on the viewer's clocks. */
function dueOf(task: Task): { day: Day | ""; time: string } {
  const due = task.due ?? task.start ?? "";
  if (!due || task.showWithoutTime) return { day: due.slice(0, 10), time: "" };
  const here = localTime(instant(due, isZone(task.timeZone) ? task.timeZone : viewZone.value), viewZone.value);
  return { day: here.slice(0, 10), time: here.slice(11, 16) };
}

function formOf(task: Task | undefined, list: string): Form {
  const { day, time } = task ? dueOf(task) : { day: "" as const, time: "" };
  const start = task?.start?.slice(0, 10) ?? (day || today.value);
  return { title: task?.title ?? "", list, day, time, priority: task?.priority ?? 0, progress: task?.progress ?? "needs-action", notes: task?.description ?? "", repeat: readRepeat(task?.recurrenceRules, start), alert: readAlert(task?.alerts, "end") };
}

const minutesOf = (time: string): number | undefined => (time ? Number(time.slice(0, 2)) * 60 + Number(time.slice(3, 5)) : undefined);

/** The changes of the due time; undefined: the rule of the series cannot follow it. A task that repeats has a start, at which it is due. */
function timesOf(was: Task | undefined, first: Form, f: Form): TaskPatch | undefined {
  const rule = JSON.stringify(f.repeat) !== JSON.stringify(first.repeat);
  const repeats = f.repeat.kind !== "never";
  const moved = f.day !== first.day || f.time !== first.time;
  if (!moved && !rule) return {};
  const day = f.day && rule ? firstFitting(f.repeat, f.day) : f.day;
  const at: TaskPatch = moved || day !== first.day || !was ? dueAt(day || undefined, minutesOf(f.time)) : {};
  if (rule) return { ...at, start: repeats ? (at.due ?? was?.start ?? was?.due ?? null) : null, recurrenceRules: rulesOf(f.repeat, day || today.value), ...(repeats ? {} : { recurrenceOverrides: null }) };
  if (!was?.recurrenceRules?.length || !was.start) return { ...at, start: null };
  const by = Math.round((Date.parse(`${at.due}Z`) - Date.parse(`${was.due ?? was.start}Z`)) / 60_000);
  const series = shiftSeries({ ...was, start: was.start } as unknown as CalendarEvent, by);
  return series && ({ ...at, ...series } as TaskPatch);
}

function changes(was: Task | undefined, first: Form, f: Form): TaskPatch | undefined {
  const times = timesOf(was, first, f);
  if (!times) return undefined;
  const progress = f.progress === first.progress ? {} : { progress: f.progress, percentComplete: f.progress === "completed" ? 100 : null };
  const alert = f.day ? f.alert : "none"; // never due, never told
  const alerts = alert === first.alert || alert === "asBefore" ? {} : { alerts: alert === "none" ? null : alertAt(alert, "end") };
  return {
    ...alerts, ...(f.title.trim() === first.title ? {} : { title: f.title.trim() }), ...(f.notes === first.notes ? {} : { description: f.notes }),
    ...(f.priority === first.priority ? {} : { priority: f.priority }), ...progress, ...times,
  };
}

/** Closes the editor of a task that is not there once all that are shown were read: it would hold the keys of the page. */
async function leaveUnknown(key: string): Promise<void> {
  await openTasks();
  await showTaskDays(days.peek()[0]!, days.peek().at(-1)!);
  const told = !!taskOf(key) || (await refreshTasks());
  if (taskOf(key) || route.peek().query["task"] !== key) return;
  closeQuery("task");
  say(told ? tt("gone") : t("cannotReach"));
}

/** The layer of the task that the address names, or of a new one. */
export function TaskEditor({ of: key }: { of: string }) {
  const there = taskOf(key);
  // The text stays if the task is deleted elsewhere meanwhile; saving says so.
  const last = useRef<{ key: string; s: ShownTask } | null>(null);
  if (there) last.current = { key, s: there };
  const s = last.current?.key === key ? last.current.s : undefined;
  const whole = useSignal<Task | null>(null);
  const failed = useSignal(false);
  useEffect(() => {
    if (!s) return;
    const id = s.task.baseTaskId ?? s.task.id;
    void readTask(s.account, id).then((task) => {
      if (task) whole.value = task;
      else failed.value = true;
    }, () => (failed.value = true));
  }, [key, !s]);
  useEffect(() => { if (key !== "new" && !s) void leaveUnknown(key); }, [key]);
  if (key !== "new" && !s) return null;
  // Without the server the task is shown as it is known; saving says why it fails.
  const task = key === "new" ? undefined : (whole.value ?? (failed.value ? s!.task : null));
  return task === null ? null : <Fields key={key} s={s} task={task} />;
}

function Fields({ s, task }: { s: ShownTask | undefined; task: Task | undefined }) {
  const first = useRef(formOf(task, s?.list.key ?? "")).current;
  const form = useSignal<Form>(first);
  const problem = useSignal("");
  const saving = useSignal(false);
  const asked = useSignal(false);
  const title = useRef<HTMLInputElement>(null);
  const f = form.value;
  const set = (change: Partial<Form>) => { problem.value = ""; form.value = { ...form.value, ...change }; };
  useEffect(() => { if (!task) title.current!.focus(); }, []);
  const chosen = f.list || defaultList.value?.key || ""; // the lists may come after the editor
  const may = !s || mayWriteList(s.list);
  const repeats = f.repeat.kind !== "never";
  const once = !!task?.recurrenceId; // one time of a series, which stays on its day and in its list
  const lists = taskLists.value.filter((l) => mayWriteList(l) && (!s || l.account === s.account));
  const save = async () => {
    if (!f.title.trim()) return void (problem.value = tt("titleNeeded"));
    if (repeats && !f.day) return void (problem.value = tt("dueNeeded"));
    const patch = changes(task, first, f);
    if (!patch) return void (problem.value = tk("cannotMove"));
    saving.value = true;
    await openTasks();
    const list = taskLists.value.find((l) => l.key === (f.list || defaultList.value?.key));
    const bad = list && (await store(s, task, list, patch));
    saving.value = false;
    if (!list) problem.value = tt("notOffered");
    else if (bad) tell(bad);
    else closeQuery("task");
  };
  const close = () => {
    if (JSON.stringify(form.value) !== JSON.stringify(first) && !saving.value) asked.value = true;
    else closeQuery("task");
  };
  const mid = task ? messageOf(task) : "";
  return (
    <Frame title={task ? tt("editTask") : tt("newTask")} onClose={close}>
      <form class="event-form" onSubmit={(e) => { e.preventDefault(); void save(); }}>
        <label class="field"><span>{tk("title")}</span><input class="title-input" ref={title} value={f.title} disabled={!may} onInput={(e) => set({ title: e.currentTarget.value })} autocomplete="off" /></label>
        {s?.repeats && <p class="quiet">{tt(once ? "onceNote" : "seriesNote")}</p>}
        <div class="task-fields">
          <label class="field"><span>{tt(s?.repeats && !once ? "firstDue" : "due")}</span><input type="date" value={f.day} disabled={!may || once} onInput={(e) => set({ day: e.currentTarget.value, ...(e.currentTarget.value ? {} : { time: "" }), ...(repeats ? {} : { repeat: readRepeat(null, e.currentTarget.value || today.value) }) })} /></label>
          <label class="field"><span>{tt("dueTime")}</span><input type="time" value={f.time} disabled={!may || once || !f.day} onInput={(e) => set({ time: e.currentTarget.value })} /></label>
          <label class="field"><span>{tt("priority")}</span><select value={f.priority} disabled={!may} onChange={(e) => set({ priority: Number(e.currentTarget.value) })}>{priorities.map((p) => <option key={p.n} value={p.n}>{tt(p.text)}</option>)}{!priorities.some((p) => p.n === f.priority) && <option value={f.priority}>{f.priority}</option>}</select></label>
          {task && !s?.repeats && <label class="field"><span>{tt("progress")}</span><select value={f.progress} disabled={!may} onChange={(e) => set({ progress: e.currentTarget.value as Progress })}>{(states.includes(f.progress) ? states : [...states, f.progress]).map((p) => <option key={p} value={p}>{tt(p)}</option>)}</select></label>}
          <label class="field"><span>{tt("list")}</span><select value={chosen} disabled={!may || once} onChange={(e) => set({ list: e.currentTarget.value })}>{(lists.some((l) => l.key === chosen) || !s ? lists : [s.list, ...lists]).map((l) => <option key={l.key} value={l.key}>{l.name}{l.owner && ` · ${l.owner}`}</option>)}</select></label>
          {f.day && <label class="field"><span>{tk("alert")}</span><AlertSelect value={f.alert} before={first.alert} at={tt("alertDue")} disabled={!may} set={(alert) => set({ alert })} /></label>}
        </div>
        {may && f.day && !once && <RepeatFields repeat={f.repeat} first={f.day} set={(repeat) => set({ repeat: repeat.until < f.day ? { ...repeat, until: addDays(f.day as Day, 90) } : repeat })} asBefore={first.repeat.kind === "asBefore"} />}
        <label class="field"><span>{tt("notes")}</span><textarea rows={4} value={f.notes} disabled={!may} onInput={(e) => set({ notes: e.currentTarget.value })} /></label>
        {mid && <p><button type="button" class="button" onClick={() => void openMessage(mid)}><Icon name="unread" />{tt("openMessage")}</button></p>}
        {problem.value && <p class="said" role="alert">{problem.value}</p>}
        {asked.value && <p class="said" role="alert">{tk("discardAsk")} <button type="button" class="button danger" onClick={() => closeQuery("task")}>{tk("discard")}</button></p>}
        <div class="ends">
          {s && may && <span class="start with-icon">
            <button type="button" class="button" onClick={() => void deleteTask(s)}><Icon name="trash" />{t("delete")}</button>
            {s.task.recurrenceId && <button type="button" class="button" title={dueText(s)} onClick={() => void deleteTask(s, true)}>{tt("skip")}</button>}
          </span>}
          <button type="button" class="button" onClick={close}>{t("cancel")}</button>
          {may && <button class="button primary" disabled={saving.value}>{t("save")}</button>}
        </div>
      </form>
    </Frame>
  );
}

/** Carries out what the form changed: in the list that it names. */
async function store(s: ShownTask | undefined, task: Task | undefined, list: (typeof taskLists.value)[number], patch: TaskPatch) {
  if (!s || !task) {
    const made = await createTask(list, patch);
    return typeof made === "string" ? undefined : made;
  }
  if (list.key !== s.list.key) {
    const bad = await moveTask(s, list);
    if (bad) return bad;
  }
  return Object.keys(patch).length > 0 ? changeTask(s, patch, task.id, task) : undefined;
}

