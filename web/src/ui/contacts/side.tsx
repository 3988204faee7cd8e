// Beside the contacts: address books, groups, and what looks double.

import { books, createCard, defaultBook, groups, mayChange, people, removeContacts, setBooks, type Book, type Contact } from "../../state/cards";
import { openMenu, say, sheet, sideOpen } from "../../state/screen";
import { goQuery } from "../../state/route";
import { count, t } from "../../text";
import { tn } from "../../text/contacts";
import { Icon, type IconName } from "../icons";
import { changeCard, doubles, place, showPlace, tell } from "./open";

const keyOf = (b: Book) => `${b.account}/${b.id}`;

export function ContactsSide() {
  const go = (...path: string[]) => () => { sideOpen.value = false; showPlace(...path); };
  const { kind, key } = place.value;
  return (
    <nav class={`side ${sideOpen.value ? "open" : ""}`} aria-label={tn("books")}>
      <button class="button primary compose" onClick={() => { sideOpen.value = false; goQuery({ edit: "new" }); }} title={`${tn("newContact")} (n)`}><Icon name="write" /><span>{tn("newContact")}</span></button>
      <ul class="folders">
        <Line name={tn("all")} icon="contacts" n={people.value.length} at={kind === "all"} run={go("all")} />
        {doubles.value.length > 0 && <Line name={tn("doubles")} icon="copy" n={doubles.value.length} at={kind === "doubles"} run={go("doubles")} />}
      </ul>
      <div class="side-title">{tn("books")}<button class="tool" aria-label={tn("newBook")} title={tn("newBook")} onClick={newBook}><Icon name="plus" /></button></div>
      <ul class="folders">{books.value.map((b) => <Line key={keyOf(b)} name={b.owner ? `${b.name} · ${b.owner}` : b.name} icon="folder" n={0} at={kind === "book" && key === keyOf(b)} run={go("book", keyOf(b))} more={(at) => bookMenu(at, b)} />)}</ul>
      <div class="side-title">{tn("groups")}<button class="tool" aria-label={tn("newGroup")} title={tn("newGroup")} onClick={newGroup}><Icon name="plus" /></button></div>
      <ul class="folders">{groups.value.map((g) => <Line key={g.key} name={g.name} icon="group" n={Object.keys(g.card.members ?? {}).length} at={kind === "group" && key === g.key} run={go("group", g.key)} {...(mayChange(g) ? { more: (at: Element) => groupMenu(at, g) } : {})} />)}</ul>
    </nav>
  );
}

function Line({ name, icon, n, at, run, more }: { name: string; icon: IconName; n: number; at: boolean; run: () => void; more?: (at: Element) => void }) {
  return (
    <li class="shelf">
      <button class="folder" aria-current={at} onClick={run} title={name}><Icon name={icon} /><span class="name">{name}</span>{n > 0 && <span class="count">{count(n)}</span>}</button>
      {more && <button class="tool" aria-label={tn("menuOf", name)} title={tn("menuOf", name)} onClick={(e) => more(e.currentTarget)}><Icon name="more" /></button>}
    </li>
  );
}

/** Asks for a name, and does something with it. */
function askName(title: string, text: string, input: string, done: (name: string) => Promise<unknown>): void {
  sheet.value = { kind: "ask", title, text, yes: t("save"), input, done: (name) => { if (typeof name === "string" && name.trim()) void done(name.trim()); } };
}

async function setBook(account: string, args: Record<string, unknown>): Promise<void> {
  const bad = await setBooks(account, args);
  if (bad) tell(bad);
}

function newBook(): void {
  const account = defaultBook.value?.account;
  if (account) askName(tn("newBook"), tn("bookName"), "", (name) => setBook(account, { create: { b: { name } } }));
}

function newGroup(): void {
  const book = defaultBook.value;
  if (!book) return;
  askName(tn("newGroup"), tn("groupName"), "", async (name) => {
    const made = await createCard(book.account, { "@type": "Card", version: "1.0", uid: `urn:uuid:${crypto.randomUUID()}`, kind: "group", addressBookIds: { [book.id]: true }, name: { "@type": "Name", full: name }, members: {} });
    if (typeof made !== "string") tell(made);
    else showPlace("group", made);
  });
}

function bookMenu(at: Element, b: Book): void {
  const mine = b.owner === "" && b.myRights.mayWrite;
  openMenu(at, [
    ...(mine ? [{ text: tn("renameBook"), icon: "drafts", run: () => askName(tn("renameBook"), tn("bookName"), b.name, (name) => setBook(b.account, { update: { [b.id]: { name } } })) }] : []),
    ...(b.myRights.mayWrite ? [{ text: tn("import"), icon: "plus", run: () => void import("./files").then((m) => m.importCards(b)) }] : []),
    { text: tn("export"), icon: "download", run: () => void import("./files").then((m) => m.exportBook(b)) },
    ...(mine && b.myRights.mayDelete && !b.isDefault ? [{ text: tn("deleteBook"), icon: "trash", run: () => (sheet.value = {
      kind: "ask", title: tn("deleteBook"), text: tn("deleteBookAsk", b.name), yes: t("delete"), danger: true,
      done: () => { void setBook(b.account, { destroy: [b.id], onDestroyRemoveContents: true }).then(() => showPlace("all")); },
    }) }] : []),
  ]);
}

function groupMenu(at: Element, g: Contact): void {
  openMenu(at, [
    { text: tn("renameGroup"), icon: "drafts", run: () => askName(tn("renameGroup"), tn("groupName"), g.name, (name) => changeCard(g, { name: { "@type": "Name", full: name } })) },
    { text: tn("deleteGroup"), icon: "trash", run: () => {
      showPlace("all");
      void removeContacts([g], 8, tell).then((back) => say(tn("groupDeleted", g.name), { text: t("undo"), run: () => void back() }, 8));
    } },
  ]);
}
