// "Add to contacts", from a message.

import type { AddressBook, Card } from "../../jmap/contacts";
import type { Address, Id } from "../../jmap/types";
import { newCard, readCard } from "../../state/cardform";
import { createCard, keptContacts } from "../../state/cards";
import { rows } from "../../state/messages";
import { say } from "../../state/screen";
import { attempt, client, home } from "../../state/session";
import { plainName } from "../../state/shown";
import { refusal, t } from "../../text";
import { tn } from "../../text/contacts";

/** Adds the sender of a message to the contacts, unless their address is there. */
export async function addSender(id: Id): Promise<void> {
  const from = rows.value.get(id)?.from?.[0];
  if (!from?.email) return;
  try {
    if (!(await add(from))) say(tn("offlineChange"));
  } catch (e) {
    say(refusal(e));
  }
}

/** The contact of an address and the address books: as the server has them, else as this browser keeps them; undefined: neither is known. */
async function look(accountId: Id, email: string): Promise<{ there: Id | undefined; books: AddressBook[] } | undefined> {
  const answers = await attempt(() => client.calls([
    ["ContactCard/query", { accountId, filter: { email }, limit: 1 }, "q"],
    ["AddressBook/get", { accountId, ids: null }, "b"],
  ]));
  if (answers) return { there: (answers.get("q")!["ids"] as Id[])[0], books: answers.get("b")!["list"] as AddressBook[] };
  const kept = await keptContacts();
  const has = (c: Card) => Object.values(c.emails ?? {}).some((e) => e.address.toLowerCase() === email.toLowerCase());
  return kept && { there: kept.cards.find((c) => c.account === accountId && has(c.card))?.card.id, books: kept.books.filter((b) => b.account === accountId) };
}

async function add(a: Address): Promise<boolean> {
  const accountId = home.value;
  const found = await look(accountId, a.email);
  if (!found || found.books.length === 0) return false;
  const { there, books } = found;
  const name = plainName(a) || a.email;
  const open = (card: string) => ({ text: t("openAccountPage"), run: () => location.assign(`/contacts/all?card=${encodeURIComponent(card)}`) });
  if (there) {
    say(tn("known", name), open(`${accountId}/${there}`));
    return true;
  }
  const book = books.find((b) => b.isDefault) ?? books[0]!;
  const { given, surname } = readCard({ name: { full: plainName(a) } } satisfies Partial<Card>, book.id);
  const form = { ...readCard({}, book.id), given, surname, emails: [{ id: "", text: a.email, context: "" as const }] };
  const made = await createCard(accountId, newCard(form));
  if (typeof made === "string") say(tn("added", name), open(made));
  else say(t("refusedByServer", made.why));
  return true;
}
