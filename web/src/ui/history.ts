// The address of the page follows the screen, and the screen follows Back and Forward. What opens (a folder, a message, the writer, a
// sheet) is a step; what closes takes its step back.

import { batch, effect } from "@preact/signals";
import type { Id } from "../jmap/types";
import { folderAt, formatAddress, parseAddress, type Named, type Spot } from "../state/address";
import { inView, list, show } from "../state/list";
import { byRole, mailboxes } from "../state/mailboxes";
import { readRow } from "../state/messages";
import { place, type Place } from "../state/place";
import { cursor, goal, menu, narrow, reading, say, scrolled, selected, sheet, sideOpen, turning, type Position, type Sheet } from "../state/screen";
import { account, home, online, outdated, session } from "../state/session";
import { t } from "../text";
import { open } from "./opened";
import { drafts, leaveWriter, leaving, resume, unfinished, write, writers } from "./writing";

/** A step of the history. layer: what lies above the page and has no address. */
interface Step extends Spot {
  layer: string;
}

/** The state that the browser keeps with a step: its number, the step before, and if another followed (else typing goes on in it). */
interface Kept {
  n: number;
  before: string;
  settled: boolean;
}

let kept: Kept = { n: 0, before: "", settled: false };
let current: Step | null = null;
/** The account of which the address was read. */
let landed: Id = "";
/** The step to which one back is under way, which the browser takes in a moment; null while none is. */
let returning: Step | null = null;
/** The message that the address says is written, and that is being looked for. */
let sought = "";
const positions = new Map<number, Position>();
const position = (): Position => ({ top: scrolled.top, cursor: cursor.value, from: inView.from, ids: list.value.ids.slice(inView.from, inView.to) });
/** Messages whose writer the person closed: their steps open it no more. */
const closed = new Set<string>();
const left = new Set<string>();

/** Reports if a sheet has no address. */
const above = (s: Sheet) => s.kind === "ask" || s.kind === "palette" || s.kind === "preview";

function sheetName(s: Sheet | null): string {
  if (!s || above(s)) return "";
  return "id" in s ? `${s.kind}.${s.id}` : s.kind;
}

function sheetOf(name: string): Sheet | null {
  const [kind, id = ""] = name.split(".");
  if (kind === "settings" || kind === "help" || kind === "scheduled") return { kind };
  return (kind === "source" || kind === "redirect" || kind === "rule") && id ? { kind, id } : null;
}

/** The place of the screen; null until it is known. */
function now(): Step | null {
  const { mailbox, search, view = "" } = place.value;
  const written = writers.value.findLast((d) => !leaving.value.has(d.key))?.address;
  const layer = sheet.value && above(sheet.value) ? "ask" : narrow.value && sideOpen.value ? "side" : "";
  const step = { account: account.value, mailbox, search, view, message: reading.value ?? "", write: written ?? sought, open: sheetName(sheet.value), layer };
  return mailbox && landed === account.value ? step : null;
}

const keyOf = (s: Step) => JSON.stringify([s.account, s.mailbox, s.search, s.view, s.message, s.write, s.open, s.layer]);
const addressOf = (s: Step) => formatAddress(s, home.value, mailboxes.value);
const layers = ["message", "write", "open", "layer"] as const;

/** Reports if only layers above a were closed. */
function closes(a: Step, b: Step): boolean {
  if (a.account !== b.account || a.mailbox !== b.mailbox || a.search !== b.search || a.view !== b.view) return false;
  return layers.every((l) => b[l] === a[l] || b[l] === "");
}

function replace(to: Step): void {
  current = to;
  history.replaceState(kept, "", addressOf(to));
}

function push(to: Step, at: Position): void {
  positions.set(kept.n, at);
  history.replaceState({ ...kept, settled: true }, "");
  kept = { n: kept.n + 1, before: keyOf(current!), settled: false };
  current = to;
  history.pushState(kept, "", addressOf(to));
}

/** Makes the address what the screen shows. at: the position in the list that a step is left at. */
function follow(at = position()): void {
  const to = now();
  if (!to || !current || returning) return;
  const turned = turning.page;
  turning.page = false;
  const from = current;
  if (keyOf(to) === keyOf(from)) {
    if (addressOf(to) !== location.pathname + location.search) replace(to); // a folder was renamed
    return;
  }
  const ended = closes(from, to) || (from.search !== "" && closes({ ...from, search: "" }, to)) || (from.view !== "" && to.view === "" && closes({ ...from, view: "" }, to));
  if (ended && kept.before === keyOf(to)) {
    returning = to;
    history.back();
    return;
  }
  const typing = from.search !== "" && to.search !== "" && to.search !== from.search && !from.message && !kept.settled;
  const turns = turned && from.message !== "" && to.message !== "";
  if (closes(from, to) || from.layer || typing || turns) replace(to);
  else push(to, at);
}

effect(() => {
  const step = now();
  for (const d of writers.value) if (!left.has(d.key)) closed.delete(d.address);
  if (step) queueMicrotask(follow);
});

let shown: { key: string; address: string }[] = [];
effect(() => {
  for (const d of shown) if (!writers.value.some((x) => x.key === d.key) && !left.delete(d.key)) closed.add(d.address);
  shown = writers.value.filter((d) => !left.has(d.key)).map(({ key, address }) => ({ key, address }));
});

addEventListener("popstate", () => {
  if (landed === "") return; // the page is not the mail: administration has addresses of its own
  const to = returning, from = kept.n;
  returning = null;
  positions.set(from, position());
  kept = keptOf(history.state);
  if (!to || kept.n !== from - 1) return void apply(); // the person steps
  current = to;
  const at = positions.get(kept.n), shown = now();
  if (narrow.value && shown && keyOf(shown) === keyOf(to)) goal.value = at ?? null;
  follow(at); // what was opened or closed meanwhile is a step of its own
});

const keptOf = (state: unknown): Kept => ({ n: 0, before: "", settled: false, ...(state as Partial<Kept> | null) });

/** The place that the address names, once the folders are known. */
export function named(): Place | undefined {
  const at = parseAddress(location);
  if (!at || (at.account || home.value) !== account.value) return undefined;
  const box = folderAt(at.path, mailboxes.value);
  return box && { mailbox: box.id, search: at.search, view: at.view };
}

/** The account that the address names, before anybody is signed in. */
export const namedAccount = (): Id => parseAddress(location)?.account ?? "";

/** Begins with what the address names, after the account was opened. found is the search for what was being written. */
export async function arrive(found: Promise<void>): Promise<void> {
  if (landed === account.value) return;
  const began = landed === "";
  landed = account.value;
  const at = parseAddress(location);
  const here = (at?.account || home.value) === account.value;
  if (began) kept = keptOf(history.state);
  if (began && (!here || !at || !folderAt(at.path, mailboxes.value))) say(t("unknownAddress"));
  if (!here && !began) {
    queueMicrotask(follow); // the person chose the account
    return;
  }
  if (at && here && folderAt(at.path, mailboxes.value)) await showRest(at, found, !began);
  else current ??= now();
  const step = now();
  if (step) replace(step);
}

/** Shows what the address names. */
async function apply(): Promise<void> {
  const at = parseAddress(location);
  const of = at?.account || home.value;
  if (at && of !== account.value && session.value?.accounts[of]) {
    reading.value = null;
    landed = "-"; // of no account, until that one is open
    place.value = { mailbox: "", search: "" };
    account.value = of;
    return;
  }
  const box = at && of === account.value ? folderAt(at.path, mailboxes.value) : undefined;
  const inbox = byRole("inbox");
  if (!box) say(t("unknownAddress"));
  const mailbox = (box ?? inbox)?.id ?? place.value.mailbox;
  const view = box ? at!.view : "";
  const moved = place.value.mailbox !== mailbox || place.value.search !== (box ? at!.search : "") || (place.value.view ?? "") !== view;
  batch(() => {
    selected.value = new Set();
    if (moved || narrow.value) goal.value = positions.get(kept.n) ?? null;
    if (moved) void show({ mailbox, search: box ? at!.search : "", view });
  });
  await showRest(box ? at! : { ...parseAddress({ pathname: "/", search: "" })! }, Promise.resolve());
}

/**
 * Shows the message, the writer and the sheet that an address names, and closes others. As the page begins (leave is false), what the person
 * has opened meanwhile stays.
 */
async function showRest(at: Named, found: Promise<void>, leave = true): Promise<void> {
  const { message, write: wanted } = at;
  batch(() => {
    if (leave) {
      menu.value = sheet.value = null;
      sideOpen.value = false;
    }
    sheet.value ??= sheetOf(at.open);
    sought = wanted && !closed.has(wanted) ? wanted : "";
    const stays = writers.value.findIndex((d) => d.address === wanted);
    for (const d of !leave || (wanted && stays < 0) ? [] : writers.value.slice(stays + 1)) {
      left.add(d.key);
      void leaveWriter(d.key);
    }
    if (stays >= 0) sought = "";
    if (leave) reading.value = null;
    reading.value ||= message || null;
  });
  current = now();
  if (wanted && current && !sought && current.write === "") replace(current); // it is written no more
  await Promise.all([message && readMessage(message), sought && openWriter(sought, found)]);
}

async function readMessage(id: Id): Promise<void> {
  const isThere = await readRow(id);
  if (reading.value !== id) return; // the person reads another
  if (isThere) {
    const index = list.value.ids.indexOf(id);
    if (index >= 0) cursor.value = index;
    return open(id);
  }
  reading.value = null;
  say(online.value ? t("unknownAddress") : t("cannotReach"));
}

/** Goes on with a message by the address of its draft: as this browser keeps it, else as the server does. */
async function openWriter(address: string, found: Promise<void>): Promise<void> {
  if (address === "new") await write({ kind: "new" });
  else {
    await found.catch(() => undefined);
    while (leaving.value.size > 0) await new Promise((done) => setTimeout(done, 50)); // it may be being saved
    const here = unfinished.value.find((k) => k.draft.address === address);
    if (here) resume(here);
    else if (!(await drafts().then((m) => m.writeDraft(address), () => !(outdated.value = true)))) {
      if (outdated.value) return; // the address keeps the draft, for the page that is loaded anew
      say(online.value ? t("unknownAddress") : t("cannotReach"));
    }
  }
  if (sought !== address) return;
  sought = "";
  const step = now();
  if (step) replace(step);
}
