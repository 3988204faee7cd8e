// The page of the contacts: address books and groups, the list, and a contact.

import "../../look/contacts.css";
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { books, contactOf, contactsCapability, loaded, openContacts } from "../../state/cards";
import { closeQuery, goQuery } from "../../state/route";
import { narrow, say, sheet, sideOpen } from "../../state/screen";
import { offers } from "../../state/session";
import { t } from "../../text";
import { tn } from "../../text/contacts";
import { Ask, Frame, Menu, Toasts } from "../above";
import { Icon } from "../icons";
import { KeyList, listenToKeys } from "../keys";
import { lazy } from "../lazy";
import { Switch, Top } from "../top";
import { covered, keys } from "./keys";
import { ContactList } from "./list";
import { cardKey, editKey, place, search } from "./open";
import { Person } from "./person";
import { ContactsSide } from "./side";

const ContactEditor = lazy(() => import("./editor").then((m) => m.ContactEditor));
const Settings = lazy(() => import("../settings").then((m) => m.Settings));

export function ContactsPage() {
  useEffect(() => void openContacts(), []);
  useLayoutEffect(() => listenToKeys(keys, covered), []); // before it is seen: no key is lost
  const person = contactOf(cardKey.value);
  useEffect(() => { document.title = `${tn("all")} – ${t("appName")}`; });
  useEffect(() => {
    if (!loaded.value || !cardKey.value || person) return;
    closeQuery("card");
    say(tn("gone"));
  }, [loaded.value, cardKey.value, !person]);
  return (
    <div class="frame contacts" data-pane={narrow.value && person ? "read" : "list"}>
      <Top page="contacts"><ContactSearch /></Top>
      {sideOpen.value && <button class="veil" aria-label={t("close")} onClick={() => (sideOpen.value = false)} />}
      <ContactsSide />
      <ContactList title={titleOf()} />
      {person ? <Person key={person.key} c={person} /> : <section class="pane read" aria-label={t("contacts")}><div class="empty"><Icon name="contacts" /><p>{offers(contactsCapability) ? tn("choose") : tn("notOffered")}</p></div></section>}
      {narrow.value && !person && <button class="button primary float" aria-label={tn("newContact")} onClick={() => goQuery({ edit: "new" })}><Icon name="write" /></button>}
      {narrow.value && !person && <Switch page="contacts" />}
      {editKey.value && loaded.value && (editKey.value === "new" || contactOf(editKey.value)) && <ContactEditor key={editKey.value} c={contactOf(editKey.value)} />}
      {sheet.value?.kind === "settings" && <Frame title={t("settings")}><Settings /></Frame>}
      {sheet.value?.kind === "help" && <KeyList groups={keys} />}
      {sheet.value?.kind === "ask" && <Ask s={sheet.value} />}
      <Menu />
      <Toasts />
    </div>
  );
}

function titleOf(): string {
  const { kind, key } = place.value;
  if (kind === "doubles") return tn("doubles");
  if (kind === "group") return contactOf(key)?.name ?? tn("groups");
  if (kind === "book") return books.value.find((b) => `${b.account}/${b.id}` === key)?.name ?? tn("books");
  return tn("all");
}

function ContactSearch() {
  const input = useRef<HTMLInputElement>(null);
  const had = useSignal(false);
  useEffect(() => { if (input.current && document.activeElement !== input.current) input.current.value = search.value; }, [search.value]);
  return (
    <form class="search" role="search" onSubmit={(e) => { e.preventDefault(); input.current!.blur(); }}>
      <Icon name="search" />
      <input ref={input} id="search" type="search" aria-label={tn("search")} placeholder={tn("search")} autocomplete="off" spellcheck={false}
        onFocus={() => (had.value = search.value !== "")}
        onInput={(e) => { goQuery({ search: e.currentTarget.value.trim(), card: "" }, had.value); had.value = true; }}
        onKeyDown={(e) => { if (e.key === "Escape") { e.currentTarget.value = ""; closeQuery("search"); e.currentTarget.blur(); e.stopPropagation(); } }} />
    </form>
  );
}
