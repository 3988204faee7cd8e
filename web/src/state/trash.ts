// Deleting folders: into Trash with their subfolders and mail, from where they come back; for good only inside Trash, after a question.

import { batch } from "@preact/signals";
import { ref } from "../jmap/client";
import type { Id, Mailbox } from "../jmap/types";
import { count, t } from "../text";
import * as db from "./db";
import { below, changed, freeName, inTrash } from "./folders";
import { show } from "./list";
import { byRole, mailboxes } from "./mailboxes";
import { place } from "./place";
import { sync } from "./sync";
import { intend, takeBack, type FolderPatch } from "./outbox";
import { reading, say, selected, sheet } from "./screen";
import { account, attempt, client } from "./session";

/** Changes folders: on the screen at once, at the server as soon as it answers. Returns the key of the intention. */
async function changeFolders(update: Record<Id, FolderPatch>, destroy: Id[] = []): Promise<string> {
  mailboxes.value = changed(mailboxes.value, { update, destroy });
  // It waits from the moment in which the screen shows it: a page that goes then loses nothing.
  const intended = intend({ kind: "folders", account: account.value, update, destroy });
  await db.put("mailboxes", account.value, [...mailboxes.value.values()]);
  return (await intended).key;
}

const patchOf = (m: Mailbox): FolderPatch => ({ name: m.name, parentId: m.parentId });

/** Leaves a folder that is no longer where it was, if it or one below it is shown. */
function leave(folder: Id, to: Mailbox | undefined): void {
  const shown = place.value.mailbox;
  if (!to || (shown !== folder && !below(mailboxes.value, folder).some((m) => m.id === shown))) return;
  batch(() => {
    reading.value = null;
    selected.value = new Set();
    void show({ mailbox: to.id, search: "" });
  });
}

/** Deletes a folder: moves it into Trash; destroys it, after a question, if it is there or there is no Trash. */
export function deleteFolder(m: Mailbox): void {
  const trash = byRole("trash");
  const all = [m, ...below(mailboxes.value, m.id)];
  if (all.some((x) => x.role)) return void say(t("holdsStandardFolder"));
  if (trash && !inTrash(mailboxes.value, m)) return void toTrash(m, trash);
  sheet.value = {
    kind: "ask", title: t("deleteForever"), text: t("destroyFolderAsk", m.name, count(all.reduce((n, x) => n + x.totalEmails, 0))),
    yes: t("deleteForever"), danger: true,
    done: () => {
      leave(m.id, trash ?? byRole("inbox"));
      void changeFolders({}, all.map((x) => x.id).reverse()).then(() => say(t("folderDestroyed", m.name)));
    },
  };
}

async function toTrash(m: Mailbox, trash: Mailbox): Promise<void> {
  const before = patchOf(m);
  const after = { name: freeName(mailboxes.value, trash.id, m.name), parentId: trash.id };
  leave(m.id, byRole("inbox"));
  const key = await changeFolders({ [m.id]: after });
  const of = account.value;
  say(t("folderTrashed", m.name), { text: t("undo"), run: () => void undo(m.id, before, key, of) });
}

/** Puts a folder back; a move that the server was not told is forgotten. */
async function undo(id: Id, before: FolderPatch, key: string, of: Id): Promise<void> {
  if (account.value !== of) return;
  const parent = before.parentId && mailboxes.value.has(before.parentId) ? before.parentId : null;
  const back = { parentId: parent, name: freeName(changed(mailboxes.value, { update: {}, destroy: [id] }), parent, before.name) };
  if (!(await takeBack(key))) return void changeFolders({ [id]: back });
  mailboxes.value = changed(mailboxes.value, { update: { [id]: back }, destroy: [] });
  await db.put("mailboxes", account.value, [...mailboxes.value.values()]);
}

/** Moves a folder out of Trash to the top level. */
export async function restoreFolder(m: Mailbox): Promise<void> {
  await changeFolders({ [m.id]: { name: freeName(mailboxes.value, null, m.name), parentId: null } });
  say(t("folderRestored", m.name));
}

/** Destroys everything in a folder after a question, and in Trash the folders below it. */
export function empty(folder: Id): void {
  const m = mailboxes.value.get(folder);
  if (!m) return;
  const folders = m.role === "trash" ? below(mailboxes.value, folder) : [];
  if (folders.some((x) => x.role)) return void say(t("holdsStandardFolder"));
  sheet.value = {
    kind: "ask", title: t("emptyTrash"), text: t(folders.length > 0 ? "emptyTrashFoldersAsk" : "emptyTrashAsk", m.name), yes: t("deleteForever"), danger: true,
    done: () =>
      void attempt(async () => {
        while (await destroySome(folder));
        reading.value = null;
        if (folders.length > 0) await changeFolders({}, folders.map((x) => x.id).reverse());
        await sync();
      }),
  };
}

/** The most messages that one request destroys: every server accepts so many. */
const piece = 250;

/** Destroys messages of a folder, or takes those out of it that are in others too. Reports if it found any. */
async function destroySome(folder: Id): Promise<boolean> {
  const accountId = account.value;
  const answers = await client.calls([
    ["Email/query", { accountId, filter: { inMailbox: folder }, limit: piece }, "q"],
    ["Email/get", { accountId, "#ids": ref("q", "Email/query", "/ids"), properties: ["mailboxIds"] }, "g"],
  ]);
  const update: Record<Id, object> = {};
  const destroy: Id[] = [];
  for (const e of answers.get("g")!["list"] as { id: Id; mailboxIds: Record<Id, boolean> }[]) {
    if (Object.keys(e.mailboxIds).some((box) => box !== folder)) update[e.id] = { [`mailboxIds/${folder}`]: null };
    else destroy.push(e.id);
  }
  if (destroy.length + Object.keys(update).length === 0) return false;
  const answer = await client.call("Email/set", { accountId, update, destroy });
  return ((answer["destroyed"] as Id[] | null) ?? []).length + Object.keys((answer["updated"] as object | null) ?? {}).length > 0;
}
