// The account as the server has it: opened, and brought up to date by pushes.

import { batch } from "@preact/signals";
import { ref, Refused, type States } from "../jmap/client";
import { rowProperties } from "../jmap/types";
import type { Call, Id, Identity, Mailbox, Row } from "../jmap/types";
import * as db from "./db";
import { inSight, list, loadWindows, stay, windowSize, type Answers } from "./list";
import { byRole, changeMailboxes, mailboxes, readMailboxes, readQuota, showMailboxes, sortedMailboxes, takeMailboxes } from "./mailboxes";
import { fetchRows, forget, messages, patched, rows, takeRows, takeThreads, threads } from "./messages";
import { asking, flush, load as loadOutbox, onDone, telling, type Intention } from "./outbox";
import { findOutgoing, identities, outgoing } from "./outgoing";
import { readOwn, takeOwn } from "./own";
import { place, type Place } from "./place";
import { account, attempt, client, follow, home, persistent, phase } from "./session";
import { answerPatch } from "./tell";
import { hasPins, pin } from "./view";

const states = { Email: "", Mailbox: "", Thread: "" };

/**
 * Opens an account: kept data first, then the answers of the server. named returns the place to begin with, if not the inbox. False: another
 * one was opened meanwhile.
 */
export async function openAccount(named: () => Place | undefined): Promise<boolean> {
  const of = account.value;
  stop?.();
  await loadOutbox();
  await readOwn();
  const [folders, rowsKept, outgoingKept] = await Promise.all([db.get<Mailbox[]>("mailboxes", account.value), db.all<Row>("rows"), db.get<{ drafts: Id; sent: Id }>("facts", "outgoing")]);
  if (account.value !== of) return false;
  batch(() => {
    if (outgoingKept && !outgoing.value.drafts) outgoing.value = outgoingKept;
    readMailboxes(folders ?? []);
    rows.value = new Map((rowsKept ?? []).map((r) => [r.id, r]));
    stay((rowsKept ?? []).map((r) => r.id));
  });
  await attempt(async () => {
    const answers = await client.calls([
      ["Mailbox/get", { accountId: account.value, ids: null }, "m"],
      ["Identity/get", { accountId: home.value, ids: null }, "i"],
      ["Email/get", { accountId: account.value, ids: [] }, "e"],
      ["Mailbox/get", { accountId: home.value, ids: null, properties: ["role"] }, "h"],
      ["Email/query", { accountId: account.value, filter: { hasKeyword: pin }, limit: 1 }, "pins"],
      ["Preferences/get", { accountId: home.value, ids: null }, "own"],
    ]);
    await takeOwn(answers.get("own")!);
    await findOutgoing(answers.get("h")!["list"] as { id: Id; role: string | null }[]);
    if (account.value !== of) return;
    hasPins.value = (answers.get("pins")!["ids"] as Id[]).length > 0;
    states.Mailbox = answers.get("m")!["state"] as string;
    states.Email = answers.get("e")!["state"] as string;
    identities.value = answers.get("i")!["list"] as Identity[];
    takeMailboxes(answers.get("m")!["list"] as Mailbox[]);
    await db.put("facts", "identities", identities.value);
  });
  if (identities.value.length === 0) identities.value = (await db.get<Identity[]>("facts", "identities")) ?? [];
  if (account.value !== of) return false;
  if (!mailboxes.value.has(place.value.mailbox)) {
    const inbox = byRole("inbox") ?? sortedMailboxes.value[0];
    const first = named() ?? (inbox && { mailbox: inbox.id, search: "" });
    if (first) place.value = first;
  }
  listen();
  void readQuota();
  return true;
}

/** Takes the changes of folders, or all of them where the server could not tell what changed. */
function takeFolders(answers: Answers): void {
  const all = answers.get("all");
  if (all) {
    states.Mailbox = all["state"] as string;
    takeMailboxes(all["list"] as Mailbox[]);
    return;
  }
  const boxes = answers.get("boxes")!;
  states.Mailbox = boxes["newState"] as string;
  if ([boxes["created"], boxes["updated"], boxes["destroyed"]].every((ids) => (ids as Id[]).length === 0)) return;
  changeMailboxes(answers.get("made")!["list"] as Mailbox[], answers.get("counts")!["list"] as Mailbox[], boxes["destroyed"] as Id[]);
}

let stop: (() => void) | null = null;
let syncing = false;
let syncAgain = false;

function listen(): void {
  if (!client.session) return;
  stop?.(); // of the same account, left and chosen again while it opened
  stop = follow(["Mailbox", "Email", "EmailDelivery"], hear, () => sync().then(flush));
  onDone((of) => (of === account.value && states.Email ? syncCalls(of) : []), settled);
}

/** Brings the screen up to date with the server. */
export const sync = () => catchUp();

/** Brings the screen up to date; known holds answers that came already. */
const catchUp = persistent<Changes>(async (known) => {
  if (phase.value !== "in") return true;
  if (syncing) {
    syncAgain = true;
    return true;
  }
  syncing = true;
  try {
    let told = await attempt(() => syncOnce(known));
    while (syncAgain) {
      syncAgain = false;
      told = await attempt(() => syncOnce());
    }
    return told ?? phase.peek() !== "in"; // undefined: no answer, or signed out
  } catch (e) {
    if (!(e instanceof Refused) || e.later === undefined) throw e;
    return false;
  } finally {
    syncing = false;
  }
});

/** Called with the rows of new mail. */
export let arrived: (list: Row[]) => void = () => undefined;
export function onArrival(fn: (list: Row[]) => void): void {
  arrived = fn;
}

/** The calls that ask for what changed since the known states: folders, most often their counts alone, and e-mails. */
function syncCalls(accountId: Id): Call[] {
  return [
    ["Mailbox/changes", { accountId, sinceState: states.Mailbox }, "boxes"],
    ["Mailbox/get", { accountId, "#ids": ref("boxes", "Mailbox/changes", "/created") }, "made"],
    ["Mailbox/get", { accountId, "#ids": ref("boxes", "Mailbox/changes", "/updated"), "#properties": ref("boxes", "Mailbox/changes", "/updatedProperties") }, "counts"],
    ["Email/changes", { accountId, sinceState: states.Email, maxChanges: 500 }, "changes"],
  ];
}

/** The answers to syncCalls. own: all changes are those of the person, who sees them already. lists: lists may have changed. */
interface Changes {
  answers: Answers;
  own: boolean;
  lists: boolean;
}

async function askChanges(): Promise<Changes> {
  try {
    return { answers: await client.calls(syncCalls(account.value)), own: false, lists: true };
  } catch (e) {
    if (!(e instanceof Refused) || e.type !== "cannotCalculateChanges") throw e;
    return { answers: await startAnew(account.value), own: false, lists: true };
  }
}

/** Shows the state of the server again after a refusal. */
function undo(i: Intention): void {
  showMailboxes();
  if (i.kind !== "change" || i.account !== account.value) return;
  const shown = Object.keys(i.update).filter((id) => rows.value.has(id));
  if (shown.length > 0) void attempt(() => fetchRows(shown)).catch(() => undefined); // sync reads the list in any case
}

/** Takes what was answered beside a change, if it tells what changed since the known state; else that is asked. null: it was refused. */
function settled(i: Intention, answers: Answers | null): void {
  if (!answers) undo(i);
  const row = answers && i.kind === "answer" && i.account === account.value ? rows.value.get(i.email) : undefined;
  if (row && i.kind === "answer") rows.value = new Map(rows.value).set(row.id, patched(row, answerPatch(i.answer)));
  const set = answers?.get("set"), changes = answers?.get("changes");
  const heard = unheeded;
  unheeded = null;
  if (i.kind !== "change" || i.account !== account.value || syncing || !changes || changes["oldState"] !== states.Email) return void sync();
  const alone = set!["oldState"] === states.Email && set!["newState"] === changes["newState"] && !changes["hasMoreChanges"] && changes["created"].length === 0;
  const own = alone && (changes["updated"] as Id[]).every((id) => id in i.update) && (changes["destroyed"] as Id[]).every((id) => i.destroy.includes(id));
  const flags = i.destroy.length === 0 && Object.values(i.update).every((patch) => Object.keys(patch).every((k) => k.startsWith("keywords/") && k !== `keywords/${pin}`));
  void catchUp({ answers: answers!, own, lists: !own || !flags || place.value.search !== "" }).then(() => {
    if (heard && news(heard)) return sync();
  });
}

/** States pushed while a change was on its way: they may report that change. */
let unheeded: States | null = null;

/** Reports if a push has a state of the account that is not known. */
function news(pushed: States): boolean {
  const { Email, Mailbox } = pushed[account.value] ?? {};
  return (Email !== undefined && Email !== states.Email) || (Mailbox !== undefined && Mailbox !== states.Mailbox);
}

function hear(pushed: States): void {
  if (!telling()) {
    if (news(pushed)) void sync();
    return;
  }
  const before = unheeded ?? {};
  unheeded = { ...before, ...Object.fromEntries(Object.entries(pushed).map(([id, of]) => [id, { ...before[id], ...of }])) };
}

/** Asks for changes once. False: the server refused a part of what is shown for now. */
async function syncOnce(known?: Changes): Promise<boolean> {
  const accountId = account.value;
  let { answers, own, lists } = known ?? await askChanges();
  const where = place.value;
  const isHere = (id: Id) => !!rows.value.get(id)?.mailboxIds[where.mailbox];
  let created: Id[] = [];
  let moved = false;
  let changed = false;
  for (;;) {
    if (account.value !== accountId) return true; // another one was opened meanwhile
    takeFolders(answers);
    const changes = answers.get("changes")!;
    const came = changes["created"] as Id[];
    const updated = own ? [] : [...came, ...(changes["updated"] as Id[]).filter((id) => rows.value.has(id))];
    created = created.concat(came);
    changed ||= answers.has("all") || came.length + (changes["updated"] as Id[]).length + (changes["destroyed"] as Id[]).length > 0;
    const were = updated.filter(isHere);
    if (updated.length > 0) {
      const { answer, since } = await asking(() => client.calls([
        ["Email/get", { accountId, ids: updated, properties: rowProperties }, "g"],
        ["Thread/get", { accountId, "#ids": ref("g", "Email/get", "/list/*/threadId") }, "t"],
      ]));
      if (account.value !== accountId) return true;
      takeRows(answer.get("g")!["list"] as Row[], since);
      takeThreads(answer.get("t")!["list"] as { id: Id; emailIds: Id[] }[]);
    }
    moved ||= updated.filter(isHere).join() !== were.join();
    forget(changes["destroyed"] as Id[]);
    states.Email = changes["newState"] as string;
    if (!changes["hasMoreChanges"] && !answers.get("boxes")?.["hasMoreChanges"]) break;
    ({ answers, own, lists } = await askChanges());
  }
  const inbox = byRole("inbox")?.id;
  const fresh = created.flatMap((id) => rows.value.get(id) ?? []).filter((r) => inbox && r.mailboxIds[inbox] && !r.keywords["$seen"]);
  if (fresh.length > 0) arrived(fresh);
  return (!lists && list.value.state === "ready") || loadWindows(inSight(), () => moved && place.value === where, changed);
}

/** The server cannot tell what changed: what is in memory is forgotten, lists are read anew. */
async function startAnew(accountId: Id): Promise<Answers> {
  const answers = await client.calls([["Mailbox/get", { accountId, ids: null }, "all"], ["Email/get", { accountId, ids: [] }, "e"]]);
  batch(() => {
    messages.value = new Map();
    threads.value = new Map();
    list.value = { ...list.value, ids: list.value.ids.map((id, i) => (i < windowSize ? id : undefined)) };
  });
  return answers.set("changes", { created: [], updated: [], destroyed: [], newState: answers.get("e")!["state"], hasMoreChanges: false });
}
