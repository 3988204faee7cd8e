// The tree of folders, and the changes of it that the server was not told yet.

import type { Id, Mailbox } from "../jmap/types";
import { waiting } from "./outbox";

/** The folders as they are when the server has been told the changes that wait. */
export function withWaiting(folders: Map<Id, Mailbox>, account: Id): Map<Id, Mailbox> {
  let out = folders;
  for (const i of waiting.value) if (i.kind === "folders" && i.account === account) out = changed(out, i);
  return out;
}

/** The folders after a change. */
export function changed(folders: Map<Id, Mailbox>, by: { update: Record<Id, Partial<Mailbox>>; destroy: Id[] }): Map<Id, Mailbox> {
  const out = new Map(folders);
  for (const [id, patch] of Object.entries(by.update)) {
    const m = out.get(id);
    if (m) out.set(id, { ...m, ...patch });
  }
  for (const id of by.destroy) out.delete(id);
  return out;
}

/** The subfolders of a folder at all levels; each parent before its children. */
export function below(folders: Map<Id, Mailbox>, of: Id): Mailbox[] {
  const out: Mailbox[] = [];
  const seen = new Set<Id>([of]);
  const walk = (parent: Id) => {
    for (const m of folders.values()) {
      if (m.parentId !== parent || seen.has(m.id)) continue;
      seen.add(m.id);
      out.push(m);
      walk(m.id);
    }
  };
  walk(of);
  return out;
}

/** Reports if a folder is Trash or below it. */
export function inTrash(folders: Map<Id, Mailbox>, m: Mailbox): boolean {
  const seen = new Set<Id>();
  for (let at: Mailbox | undefined = m; at && !seen.has(at.id); at = at.parentId ? folders.get(at.parentId) : undefined) {
    if (at.role === "trash") return true;
    seen.add(at.id);
  }
  return false;
}

/** A name that no folder below parent has: the wanted one, else with a number. The server compares names the same way, by case. */
export function freeName(folders: Map<Id, Mailbox>, parent: Id | null, wanted: string): string {
  const taken = new Set([...folders.values()].filter((m) => m.parentId === parent).map((m) => m.name));
  for (let n = 2, name = wanted; ; n++) {
    if (!taken.has(name)) return name;
    name = `${wanted} (${n})`;
  }
}
