// The commands of the client: one table for keys, palette, and list of keys. The keys are those of Gmail.

import type { Id } from "../jmap/types";
import { archive, chosen, junk, keyword, remove, toggle } from "../state/actions";
import { list, show } from "../state/list";
import { byRole, mailboxes } from "../state/mailboxes";
import { rows } from "../state/messages";
import { place } from "../state/place";
import { sync } from "../state/sync";
import { cursor, folded, narrow, reading, selected, sheet, toasts, type MenuItem } from "../state/screen";
import { t, tc, type CommandText } from "../text";
import type { IconName } from "./icons";
import { open, step } from "./opened";
import { write } from "./writing";

export type Group = "groupMail" | "groupSelect" | "groupWrite" | "groupGo" | "groupApp";

export interface Command {
  name: CommandText;
  group: Group;
  /** Its keys, two of which follow each other with a blank between. The first is shown. */
  keys: string[];
  icon?: IconName;
  /** The text of its button, if it is not the name. */
  says?: (of: Concerned) => string;
  /** Carries it out for the e-mails that are named, else for those that are chosen. */
  run: (ids?: Id[]) => unknown;
}

/** Facts about the messages that a button is for. */
export interface Concerned {
  flagged?: boolean;
}

/** The message that an answer is for. */
const message = (ids?: Id[]) => ids?.[0] ?? reading.value ?? list.value.ids[cursor.value];

const answer = (kind: "reply" | "replyAll" | "forward") => (ids?: Id[]) => {
  const id = message(ids);
  if (id) void write({ kind, id });
};

function go(role: string, search = ""): void {
  const box = search ? place.value.mailbox : byRole(role)?.id;
  if (!box) return;
  reading.value = null;
  selected.value = new Set();
  void show({ mailbox: box, search });
}

/** Selects the entries of the list that were read and of which a keyword is set, or is not. */
function pick(name: string, set: boolean): void {
  selected.value = new Set(list.value.ids.filter((id) => id && rows.value.has(id) && !!rows.value.get(id)!.keywords[name] === set) as string[]);
}

function pickOne(): void {
  const at = list.value.ids[cursor.value];
  if (!at) return;
  const next = new Set(selected.value);
  if (!next.delete(at)) next.add(at);
  selected.value = next;
}

/** The messages of the reading pane, and which of them has the focus, or was scrolled to. */
function inThread(): { all: HTMLElement[]; at: number } {
  const all = [...document.querySelectorAll<HTMLElement>(".reader .mail")];
  const focused = all.findIndex((m) => m.contains(document.activeElement));
  return { all, at: focused >= 0 ? focused : all.findIndex((m) => m.classList.contains("current")) };
}

function stepInThread(by: number): void {
  const { all, at } = inThread();
  const to = all[Math.max(0, Math.min(all.length - 1, at + by))];
  if (!to) return;
  to.querySelector<HTMLElement>(".mail.closed > header")?.click();
  if (to.classList.contains("closed")) to.querySelector<HTMLElement>("header")?.click();
  to.querySelector<HTMLElement>("header button")?.focus();
  to.scrollIntoView({ block: "nearest" });
}

function unreadFromHere(): void {
  const { all, at } = inThread();
  const ids = all.slice(Math.max(0, at)).map((m) => m.dataset["id"]!);
  if (ids.length > 0) void keyword("$seen", false, ids);
  reading.value = null;
}

const press = (selector: string) => document.querySelector<HTMLElement>(selector)?.click();
const onList = () => selected.value.size > 0 || !reading.value;

function markUnread(ids?: Id[]): void {
  const of = ids ?? chosen();
  if (!ids && !onList()) reading.value = null;
  void keyword("$seen", false, of);
}

export const commands: Command[] = [
  { name: "next", group: "groupMail", keys: ["j"], run: () => step(1) },
  { name: "previous", group: "groupMail", keys: ["k"], run: () => step(-1) },
  { name: "open", group: "groupMail", keys: ["Enter", "o"], run: () => { const at = list.value.ids[cursor.value]; if (at) void open(at); } },
  { name: "back", group: "groupMail", keys: ["u"], icon: "back", run: () => (reading.value = null) },
  { name: "nextInThread", group: "groupMail", keys: ["n"], run: () => stepInThread(1) },
  { name: "previousInThread", group: "groupMail", keys: ["p"], run: () => stepInThread(-1) },
  { name: "expandAll", group: "groupMail", keys: [";"], run: () => (folded.value = { all: false }) },
  { name: "collapseAll", group: "groupMail", keys: [":"], run: () => (folded.value = { all: true }) },
  { name: "archive", group: "groupMail", keys: ["e", "y"], icon: "archive", run: (ids) => archive(ids) },
  { name: "archiveNext", group: "groupMail", keys: ["]", "}"], run: () => archive() },
  { name: "archivePrevious", group: "groupMail", keys: ["[", "{"], run: () => archive().then(() => step(-1)) },
  { name: "delete", group: "groupMail", keys: ["#", "Delete"], icon: "trash", run: (ids) => remove(ids) },
  { name: "junk", group: "groupMail", keys: ["!"], icon: "junk", says: () => t(mailboxes.value.get(place.value.mailbox)?.role === "junk" ? "notJunk" : "junkIt"), run: (ids) => junk(ids) },
  { name: "flag", group: "groupMail", keys: ["s"], icon: "flag", says: ({ flagged }) => t(flagged ? "unflag" : "flag"), run: (ids) => toggle("$flagged", ids) },
  { name: "read", group: "groupMail", keys: ["I"], icon: "read", run: (ids) => keyword("$seen", true, ids) },
  { name: "unread", group: "groupMail", keys: ["U"], icon: "unread", run: markUnread },
  { name: "unreadFromHere", group: "groupMail", keys: ["_"], run: unreadFromHere },
  { name: "move", group: "groupMail", keys: ["v"], icon: "move", says: () => t("move"), run: () => { if (chosen().length > 0) sheet.value = { kind: "palette", mode: "move" }; } },
  { name: "label", group: "groupMail", keys: ["l"], icon: "label", says: () => t("label"), run: () => { if (chosen().length > 0) sheet.value = { kind: "palette", mode: "label" }; } },
  { name: "block", group: "groupMail", keys: [], icon: "block", run: (ids) => { const id = message(ids); if (id) void import("./sender").then((m) => m.toggleBlock(id)); } },
  { name: "makeRule", group: "groupMail", keys: [], icon: "rule", run: (ids) => { const id = message(ids); if (id) sheet.value = { kind: "rule", id }; } },
  { name: "addContact", group: "groupMail", keys: [], icon: "contacts", run: (ids) => { const id = message(ids); if (id) void import("./contacts/add").then((m) => m.addSender(id)); } },
  { name: "addTask", group: "groupMail", keys: [], icon: "check", run: (ids) => { const id = message(ids); if (id) void import("./addtask").then((m) => m.addTask(id)); } },
  { name: "goTasks", group: "groupGo", keys: [], icon: "check", run: () => location.assign("/calendar/tasks") },
  { name: "goCalendar", group: "groupGo", keys: ["g c"], icon: "calendar", run: () => location.assign("/calendar/") },
  { name: "goContacts", group: "groupGo", keys: ["g o"], icon: "contacts", run: () => location.assign("/contacts/") },
  { name: "snooze", group: "groupMail", keys: ["b"], icon: "clock", run: (ids) => import("./aside").then((m) => m.askSnooze(ids)) },
  { name: "remind", group: "groupMail", keys: [], icon: "clock", run: (ids) => { const id = message(ids); if (id) void import("./aside").then((m) => m.remind(id)); } },
  { name: "pin", group: "groupMail", keys: [], icon: "pin", run: (ids) => import("./aside").then((m) => m.togglePin(ids)) },
  { name: "mute", group: "groupMail", keys: ["m"], icon: "mute", run: (ids) => import("./aside").then((m) => m.toggleMute(ids)) },
  { name: "undo", group: "groupMail", keys: ["z"], run: () => toasts.value.findLast((x) => x.action)?.action!.run() },
  { name: "select", group: "groupSelect", keys: ["x"], run: pickOne },
  { name: "selectAll", group: "groupSelect", keys: ["* a"], run: () => import("../state/selectall").then((m) => m.selectAll()) },
  { name: "selectNone", group: "groupSelect", keys: ["* n"], run: () => (selected.value = new Set()) },
  { name: "selectRead", group: "groupSelect", keys: ["* r"], run: () => pick("$seen", true) },
  { name: "selectUnread", group: "groupSelect", keys: ["* u"], run: () => pick("$seen", false) },
  { name: "selectFlagged", group: "groupSelect", keys: ["* s"], run: () => pick("$flagged", true) },
  { name: "selectUnflagged", group: "groupSelect", keys: ["* t"], run: () => pick("$flagged", false) },
  { name: "compose", group: "groupWrite", keys: ["c"], icon: "write", run: () => write({ kind: "new" }) },
  { name: "composeTab", group: "groupWrite", keys: ["d"], icon: "write", run: () => window.open("/mail/inbox?write=new", "_blank") },
  { name: "reply", group: "groupWrite", keys: ["r"], icon: "reply", run: answer("reply") },
  { name: "replyAll", group: "groupWrite", keys: ["a"], icon: "replyAll", run: answer("replyAll") },
  { name: "forward", group: "groupWrite", keys: ["f"], icon: "forward", run: answer("forward") },
  { name: "redirect", group: "groupWrite", keys: [], icon: "redirect", run: (ids) => { const id = message(ids); if (id) sheet.value = { kind: "redirect", id }; } },
  { name: "search", group: "groupGo", keys: ["/"], icon: "search", run: () => document.getElementById("search")?.focus() },
  { name: "goInbox", group: "groupGo", keys: ["g i"], icon: "inbox", run: () => go("inbox") },
  { name: "goFlagged", group: "groupGo", keys: ["g s"], icon: "flag", run: () => go("", "is:starred") },
  { name: "goSnoozed", group: "groupGo", keys: ["g b"], icon: "clock", run: () => go("snoozed") },
  { name: "goSent", group: "groupGo", keys: ["g t"], icon: "sent", run: () => go("sent") },
  { name: "goDrafts", group: "groupGo", keys: ["g d"], icon: "drafts", run: () => go("drafts") },
  { name: "goAll", group: "groupGo", keys: ["g a"], icon: "archive", run: () => go("", "in:anywhere") },
  { name: "scheduled", group: "groupGo", keys: [], icon: "clock", run: () => (sheet.value = { kind: "scheduled" }) },
  { name: "goFolder", group: "groupGo", keys: ["g l"], icon: "folder", run: () => (sheet.value = { kind: "palette", mode: "go" }) },
  { name: "palette", group: "groupApp", keys: ["Ctrl+K"], icon: "search", run: () => (sheet.value = { kind: "palette", mode: "all" }) },
  { name: "refresh", group: "groupApp", keys: ["N"], run: () => sync() },
  { name: "toolbar", group: "groupApp", keys: [","], run: () => document.querySelector<HTMLElement>(onList() ? ".list .bar[role=toolbar] button, .list .bar button" : ".read .bar button:not(.only-narrow)")?.focus() },
  { name: "more", group: "groupApp", keys: ["."], run: () => press(onList() ? ".list .bar[role=toolbar] button:last-of-type" : ".read .bar button:last-of-type") },
  { name: "print", group: "groupApp", keys: [], icon: "print", run: () => void import("./near").then((m) => m.printAll(), () => print()) },
  { name: "source", group: "groupApp", keys: [], icon: "code", says: () => t("source"), run: (ids) => { const id = message(ids); if (id) sheet.value = { kind: "source", id }; } },
  { name: "settings", group: "groupApp", keys: [], icon: "settings", run: () => (sheet.value = { kind: "settings" }) },
  { name: "help", group: "groupApp", keys: ["?"], icon: "keyboard", run: () => (sheet.value = { kind: "help" }) },
];

const byName = new Map(commands.map((c) => [c.name, c] as const));

/** A command as buttons and menus show it. */
export interface Deed extends MenuItem {
  name: CommandText;
  icon: IconName;
  /** Its text, and the key that does the same. */
  hint: string;
}

/** Returns a command as buttons and menus show it; without ids it is for the e-mails that are chosen. */
export function deed(name: CommandText, of: Concerned = {}, ids?: () => Id[]): Deed {
  const c = byName.get(name)!;
  const text = c.says?.(of) ?? tc(name);
  const key = c.keys[0];
  return { name, text, icon: c.icon ?? "check", hint: key ? `${text} (${key})` : text, ...(key ? { key } : {}), run: () => void c.run(ids?.()) };
}

const byKey = new Map(commands.flatMap((c) => c.keys.map((k) => [k, c] as const)));
const firsts = new Set([...byKey.keys()].filter((k) => k.length === 3 && k[1] === " ").map((k) => k[0]!));

/** The first of two keys that was pressed. */
let before = "";

/** Reports if a key belongs to the focused element: a field, or a button that Enter presses. */
function taken(e: KeyboardEvent, target: HTMLElement): boolean {
  if (target.isContentEditable || (/^(?:INPUT|TEXTAREA|SELECT)$/u.test(target.tagName) && (target as HTMLInputElement).type !== "checkbox")) return true;
  return e.key === "Enter" && !!target.closest("button,a");
}

/** The position in the list that a key leads to; undefined: the key moves nothing. */
function moved(key: string): number | undefined {
  const last = Math.max(0, list.value.total - 1);
  switch (key) {
    case "ArrowDown": return Math.min(last, cursor.value + 1);
    case "ArrowUp": return Math.max(0, cursor.value - 1);
    case "End": return last;
    case "Home": return 0;
    default: return undefined;
  }
}

/** Carries out the command of a key, and reports if it has one. */
export function onKey(e: KeyboardEvent): boolean {
  const target = e.target as HTMLElement;
  if ((e.ctrlKey || e.metaKey) && !e.altKey && !e.shiftKey && e.key.toLowerCase() === "k" && !target.isContentEditable && !sheet.value) {
    sheet.value = { kind: "palette", mode: "all" };
    return true;
  }
  if (e.ctrlKey || e.metaKey || e.altKey || taken(e, target)) return false;
  const two = before ? `${before} ${e.key}` : "";
  before = "";
  const found = byKey.get(two) ?? byKey.get(e.key);
  if (found) {
    void found.run();
    return true;
  }
  if (firsts.has(e.key)) {
    before = e.key;
    return true;
  }
  if (e.key === "Escape") {
    selected.value = new Set();
    reading.value = null;
    return true;
  }
  const to = target.closest(".reader") && !narrow.value ? undefined : moved(e.key);
  if (to === undefined) return false;
  cursor.value = to;
  return true;
}
