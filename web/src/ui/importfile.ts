// Files whose parts become objects at the server: events in a calendar, contacts in an address book.

import { whyOf } from "../jmap/client";
import type { Id, SetError } from "../jmap/types";
import { say } from "../state/screen";
import { attempt, client } from "../state/session";
import { refusal, t } from "../text";

/** So many objects are created in one call. */
const piece = 100;

/** Creates objects, and counts those that were created and those that were refused, with the reason for one of them. */
export async function createAll(type: "CalendarEvent" | "ContactCard", account: Id, list: object[], more: Record<string, unknown> = {}): Promise<{ done: number; refused: number; why: string }> {
  const out = { done: 0, refused: 0, why: "" };
  for (let i = 0; i < list.length; i += piece) {
    const create = Object.fromEntries(list.slice(i, i + piece).map((x, n) => [`n${n}`, x]));
    const answer = await client.call(`${type}/set`, { accountId: account, create, ...more });
    const bad = Object.values((answer["notCreated"] ?? {}) as Record<string, SetError>);
    out.refused += bad.length;
    out.done += Object.keys((answer["created"] ?? {}) as object).length;
    if (bad[0]) out.why = whyOf(bad[0]);
  }
  return out;
}

/** Runs work that needs the server, and shows why it did not come to its end. */
export async function orSay(work: () => Promise<unknown>): Promise<void> {
  try {
    if (!(await attempt(async () => { await work(); return true; }))) say(t("cannotReach"));
  } catch (e) {
    say(refusal(e));
  }
}

/** Asks for a file, and takes it. */
export function chooseFile(accept: string, take: (file: File) => Promise<unknown>): void {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = accept;
  input.onchange = () => {
    const file = input.files?.[0];
    if (file) void orSay(() => take(file));
  };
  input.click();
}
