// The place in the contacts (list and contact), and the actions on them.

import { computed } from "@preact/signals";
import type { Card } from "../../jmap/contacts";
import { changeCards, contactOf, groups, mayChange, people, removeContacts, type Contact, type Failure } from "../../state/cards";
import { doublesOf, fits, mergedCard } from "../../state/cardname";
import { preferences } from "../../state/prefs";
import { closeQuery, go, goQuery, route } from "../../state/route";
import { say } from "../../state/screen";
import { t } from "../../text";
import { tn } from "../../text/contacts";

/** all, doubles, or a book or group by its key (account/id). */
export const place = computed<{ kind: "all" | "doubles" | "book" | "group"; key: string }>(() => {
  const [, kind, key = ""] = route.value.path;
  return kind === "doubles" ? { kind, key: "" } : (kind === "book" || kind === "group") && key ? { kind, key } : { kind: "all", key: "" };
});

export const search = computed(() => route.value.query["search"] ?? "");
export const cardKey = computed(() => route.value.query["card"] ?? "");
export const editKey = computed(() => route.value.query["edit"] ?? "");

/** The contacts of the list that is shown. */
export const shown = computed<Contact[]>(() => {
  const { kind, key } = place.value;
  const members = kind === "group" ? (contactOf(key)?.card.members ?? {}) : {};
  const account = key.split("/")[0]!;
  const there = people.value.filter((c) => kind === "all" || kind === "doubles" || (c.account === account && (kind === "book" ? c.card.addressBookIds[key.slice(account.length + 1)] : members[c.card.uid])));
  return search.value ? there.filter((c) => fits(c.card, search.value)) : there;
});

export const doubles = computed(() => doublesOf(people.value.filter(mayChange)));

export const showPlace = (...path: string[]) => go({ path: ["contacts", ...path], query: {} });
export const openCard = (key: string, replace = false) => goQuery({ card: key, edit: "" }, replace || cardKey.value !== "");

export function tell(f: Failure): void {
  say(f.why ? t("refusedByServer", f.why) : tn("offlineChange"), undefined, 10);
}

const seconds = () => Math.max(4, preferences.value.undoSeconds);

export async function deleteContact(c: Contact): Promise<void> {
  closeQuery("card", "edit");
  const back = await removeContacts([c], seconds(), tell);
  say(tn("deleted", c.name), { text: t("undo"), run: back }, seconds());
}

/** Changes a card; false: it was not changed. */
export async function changeCard(c: Contact, patch: Record<string, unknown>): Promise<boolean> {
  const bad = await changeCards([{ of: c, patch }]);
  if (bad) tell(bad);
  return !bad;
}

/** Makes one contact of several, and offers to undo it. */
export async function merge(list: Contact[]): Promise<void> {
  const [one, ...others] = list as [Contact, ...Contact[]];
  const patch = mergedCard(list.map((c) => c.card)) as Record<string, unknown>;
  const members = groups.value.filter((g) => g.account === one.account && others.some((c) => g.card.members?.[c.card.uid]));
  const changes: { of: Contact; patch: Record<string, unknown> }[] = members.map((g) => ({ of: g, patch: { members: { ...Object.fromEntries(Object.entries(g.card.members ?? {}).filter(([uid]) => !others.some((c) => c.card.uid === uid))), [one.card.uid]: true } } }));
  if (Object.keys(patch).length > 0) changes.push({ of: one, patch });
  const bad = changes.length > 0 && (await changeCards(changes));
  if (bad) return tell(bad);
  const back = await removeContacts(others, seconds(), tell);
  const undo = async () => {
    // If the others are gone for good, the card that is left keeps their properties.
    if (!(await back()) || changes.length === 0) return;
    const problem = await changeCards(changes.map(({ of, patch: p }) => ({ of: contactOf(of.key) ?? of, patch: was(of.card, p) })));
    if (problem) tell(problem);
  };
  return void say(tn("merged", list.length), { text: t("undo"), run: () => void undo() }, seconds());
}

const was = (card: Card, patch: Record<string, unknown>) => Object.fromEntries(Object.keys(patch).map((k) => [k, (card as unknown as Record<string, unknown>)[k] ?? null]));

/** Puts somebody into a group, or takes them out. */
export function setMember(group: Contact, c: Contact, on: boolean): void {
  const members = { ...group.card.members };
  if (on) members[c.card.uid] = true;
  else delete members[c.card.uid];
  void changeCard(group, { members });
}

/** Shows the next or previous contact of the list. */
export function step(by: number): void {
  const list = shown.value;
  const at = list.findIndex((c) => c.key === cardKey.value);
  const next = list[at < 0 ? 0 : Math.max(0, Math.min(list.length - 1, at + by))];
  if (next) openCard(next.key);
  document.querySelector(`[data-contact="${CSS.escape(next?.key ?? "")}"]`)?.scrollIntoView({ block: "nearest" });
}
