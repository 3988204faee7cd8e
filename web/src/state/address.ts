// The address of the page: where one is in the mail, so that it can be opened again, in another tab too.
//
//   /mail/inbox   /mail/Projects/2026   /mail/~ID
//   ?search=from:anna  ?view=unread.oldest  ?message=ID  ?write=Message-ID|new  ?open=settings|help|source.ID|redirect.ID  ?account=ID

import type { Id, Mailbox } from "../jmap/types";

/** The place of the screen; "" is none. */
export interface Spot {
  account: Id;
  mailbox: Id;
  search: string;
  view: string;
  message: Id;
  write: string;
  open: string;
}

/** The parts of an address: as Spot, but the folder is a path of names. account "" is one's own. */
export interface Named extends Omit<Spot, "mailbox"> {
  path: string[];
}

const fields = ["account", "search", "view", "message", "write", "open"] as const;

/** Reads an address; undefined: it names no place in the mail. */
export function parseAddress(url: { pathname: string; search: string }): Named | undefined {
  const [, root, ...rest] = url.pathname.split("/");
  if (root !== "mail" && root !== "") return undefined;
  const query = new URLSearchParams(url.search);
  const out: Named = { account: "", path: [], search: "", view: "", message: "", write: "", open: "" };
  for (const f of fields) out[f] = query.get(f) ?? "";
  try {
    out.path = rest.filter(Boolean).map(decodeURIComponent);
  } catch {
    return undefined; // a "%" that stands for itself
  }
  return out;
}

/** Finds the folder of a path: by a role, an id behind "~", or names. No path is the inbox. */
export function folderAt(path: string[], folders: Map<Id, Mailbox>): Mailbox | undefined {
  const [first = "inbox", ...rest] = path;
  if (first.startsWith("~")) return rest.length === 0 ? folders.get(first.slice(1)) : undefined;
  const all = [...folders.values()];
  let at = all.find((m) => m.role === first) ?? all.find((m) => !m.parentId && m.name === first);
  for (const name of rest) {
    const parent = at;
    at = parent && all.find((m) => m.parentId === parent.id && m.name === name);
  }
  return at;
}

/** The path of a folder: readable where that leads back to it. */
function pathTo(m: Mailbox, folders: Map<Id, Mailbox>): string[] {
  const path: string[] = [];
  for (let at: Mailbox | undefined = m; at && path.length < 20; at = at.parentId ? folders.get(at.parentId) : undefined) {
    path.unshift(at.role ?? at.name);
    if (at.role) break;
  }
  const readable = path.every((name) => !/^(?:\.{0,2}|~.*)$|[/\\]/u.test(name));
  return readable && folderAt(path, folders) === m ? path : [`~${m.id}`];
}

/** Writes an address; home is the account that needs no name. */
export function formatAddress(s: Spot, home: Id, folders: Map<Id, Mailbox>): string {
  const m = folders.get(s.mailbox);
  const query = new URLSearchParams();
  for (const f of fields) if (s[f] && !(f === "account" && s.account === home)) query.set(f, s[f]);
  // Readable: what a query may have as it is (RFC 3986 §3.4).
  const text = query.toString().replaceAll("+", "%20").replace(/%(?:3A|40|2F|2C)/gu, decodeURIComponent);
  return `/mail/${m ? pathTo(m, folders).map(encodeURIComponent).join("/") : `~${s.mailbox}`}${text ? `?${text}` : ""}`;
}
