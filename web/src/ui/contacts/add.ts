// "Add to contacts", from a message.

import { refusalIn, whyOf } from "../../jmap/client";
import type { AddressBook, Card } from "../../jmap/contacts";
import type { Address, Id } from "../../jmap/types";
import { newCard, readCard } from "../../state/cardform";
import { rows } from "../../state/messages";
import { say } from "../../state/screen";
import { attempt, client, home } from "../../state/session";
import { plainName } from "../../state/shown";
import { t } from "../../text";
import { tn } from "../../text/contacts";

/** Adds the sender of a message to the contacts, unless their address is there. */
export async function addSender(id: Id): Promise<void> {
  const from = rows.value.get(id)?.from?.[0];
  if (!from?.email) return;
  try {
    if (!(await attempt(() => add(from)))) say(tn("offlineChange"));
  } catch (e) {
    say(t("refusedByServer", e instanceof Error ? e.message : String(e)));
  }
}

async function add(a: Address): Promise<true> {
  const accountId = home.value;
  const answers = await client.calls([
    ["ContactCard/query", { accountId, filter: { email: a.email }, limit: 1 }, "q"],
    ["AddressBook/get", { accountId, ids: null }, "b"],
  ]);
  const name = plainName(a) || a.email;
  const there = (answers.get("q")!["ids"] as Id[])[0];
  const open = (card: Id) => ({ text: t("openAccountPage"), run: () => location.assign(`/contacts/all?card=${encodeURIComponent(`${accountId}/${card}`)}`) });
  if (there) {
    say(tn("known", name), open(there));
    return true;
  }
  const books = answers.get("b")!["list"] as AddressBook[];
  const book = books.find((b) => b.isDefault) ?? books[0]!;
  const { given, surname } = readCard({ name: { full: plainName(a) } } satisfies Partial<Card>, book.id);
  const form = { ...readCard({}, book.id), given, surname, emails: [{ id: "", text: a.email, context: "" as const }] };
  const made = await client.call("ContactCard/set", { accountId, create: { c: newCard(form) } });
  const bad = refusalIn(made);
  if (bad) say(t("refusedByServer", whyOf(bad)));
  else say(tn("added", name), open((made["created"] as Record<string, { id: Id }>)["c"]!.id));
  return true;
}
