// Actions on folders: they are made, renamed, moved, deleted, brought back. Loaded when one is asked for.

import { refusalIn, whyOf } from "../jmap/client";
import type { Id, Mailbox } from "../jmap/types";
import { inTrash } from "../state/folders";
import { byRole, mailboxes } from "../state/mailboxes";
import { openMenu, say, sheet } from "../state/screen";
import { account, attempt, client } from "../state/session";
import { sync } from "../state/sync";
import { deleteFolder, restoreFolder } from "../state/trash";
import { t } from "../text";

/** Moves a folder below another, or to the top level. */
export async function moveFolder(m: Mailbox, parent: Mailbox | null): Promise<void> {
  const before = m.parentId;
  const put = (parentId: Id | null) => setMailbox({ update: { [m.id]: { parentId } } });
  const problem = await put(parent?.id ?? null);
  say(problem ?? t("folderMoved", m.name), problem ? undefined : { text: t("undo"), run: () => void put(before) });
}

/** Changes folders; why the server refused, if it did. */
async function setMailbox(args: Record<string, unknown>): Promise<string | undefined> {
  const answer = await attempt(() => client.call("Mailbox/set", { accountId: account.value, ...args }));
  if (!answer) return t("cannotReach");
  void sync();
  const problem = refusalIn(answer);
  return problem && t("refusedByServer", whyOf(problem));
}

/** Asks for the name of a new folder, and makes it. */
export function newFolder(): void {
  sheet.value = {
    kind: "ask", title: t("newFolder"), text: t("folderName"), yes: t("save"), input: "",
    done: (name) => typeof name === "string" && name.trim() && setMailbox({ create: { f: { name: name.trim(), parentId: null, isSubscribed: true } } }),
  };
}

/** Opens the menu of a folder beside an element. */
export function folderMenu(at: Element, m: Mailbox): void {
  const trash = byRole("trash");
  const trashed = inTrash(mailboxes.value, m);
  const all = [
    { text: t("folderColour"), icon: "label", run: () => void import("./sideown").then((x) => x.askFolderHue(at, m.id)) },
    ...(m.myRights.mayAddItems ? [{ text: t("importMail"), icon: "plus", run: () => void import("./exchange").then((x) => x.chooseFiles(m.id)) }] : []),
    { text: t("exportMail"), icon: "download", run: () => void import("./exchange").then((x) => x.exportFolder(m.id)) },
  ];
  if (m.role) return openMenu(at, all);
  openMenu(at, [
    {
      text: t("renameFolder"), icon: "drafts",
      run: () => (sheet.value = { kind: "ask", title: t("renameFolder"), text: t("folderName"), yes: t("save"), input: m.name, done: (name) => typeof name === "string" && name.trim() && setMailbox({ update: { [m.id]: { name: name.trim() } } }) }),
    },
    ...all,
    ...(trashed && m.parentId === trash?.id ? [{ text: t("restoreFolder"), icon: "move", run: () => void restoreFolder(m) }] : []),
    { text: trashed ? t("deleteForever") : t("deleteFolder"), icon: "trash", run: () => deleteFolder(m) },
  ]);
}
