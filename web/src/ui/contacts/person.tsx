// A contact that is looked at.

import { useEffect, useRef } from "preact/hooks";
import type { Card } from "../../jmap/contacts";
import { bookOf, groups, mayChange, type Contact } from "../../state/cards";
import { dateText } from "../../state/cardform";
import { closeQuery, goQuery } from "../../state/route";
import { openMenu } from "../../state/screen";
import { language, t } from "../../text";
import { tn } from "../../text/contacts";
import { Icon, type IconName } from "../icons";
import { Mark } from "../unsaved";
import { Face } from "./face";
import { deleteContact, setMember, showPlace } from "./open";

const contextText = (v: { contexts?: Record<string, boolean>; features?: Record<string, boolean>; label?: string }): string =>
  v.label || (v.features?.["mobile"] ? tn("mobile") : v.contexts?.["work"] ? tn("work") : v.contexts?.["private"] ? tn("private") : "");

function day(c: Card, kind: string): string {
  const text = dateText(Object.values(c.anniversaries ?? {}).find((a) => a.kind === kind)?.date);
  if (!text) return "";
  const hasYear = !text.startsWith("--");
  const date = new Date(`${hasYear ? text : `2024${text.slice(1)}`}T00:00:00Z`);
  return Number.isNaN(date.getTime()) ? text : new Intl.DateTimeFormat(language.value, { day: "numeric", month: "long", ...(hasYear ? { year: "numeric" } : {}), timeZone: "UTC" }).format(date);
}

/** The lines of an address, as letters have them. */
function addressLines(a: NonNullable<Card["addresses"]>[string]): string[] {
  if (!a.components?.length) return (a.full ?? "").split("\n");
  const of = (...kinds: string[]) => a.components!.filter((c) => kinds.includes(c.kind)).map((c) => c.value).join(" ");
  return [of("name", "number", "block", "direction", "landmark"), of("apartment", "floor", "room", "building", "postOfficeBox"), [of("postcode"), of("locality"), of("region")].filter(Boolean).join(" "), of("country")].filter(Boolean);
}

const webLink = (uri: string) => (/^https?:/iu.test(uri) && URL.canParse(uri) ? uri : undefined);

export function Person({ c }: { c: Contact }) {
  const head = useRef<HTMLHeadingElement>(null);
  useEffect(() => head.current?.focus({ preventScroll: true }), [c.key]);
  const { card } = c;
  const may = mayChange(c);
  const work = [...Object.values(card.titles ?? {}).map((x) => x.name), ...Object.values(card.organizations ?? {}).map((o) => [o.name, ...(o.units ?? []).map((u) => u.name)].filter(Boolean).join(", "))].filter(Boolean);
  const own = groups.value.filter((g) => g.account === c.account);
  const mine = own.filter((g) => g.card.members?.[card.uid]);
  const book = bookOf(c);
  return (
    <section class="pane read" aria-label={c.name}>
      <div class="bar">
        <button class="tool only-narrow" aria-label={t("back")} onClick={() => closeQuery("card")}><Icon name="back" /></button>
        <h2 />
        {may && <button class="tool" aria-label={tn("edit")} title={`${tn("edit")} (e)`} onClick={() => goQuery({ edit: c.key })}><Icon name="drafts" /></button>}
        {own.length > 0 && <button class="tool" aria-label={tn("inGroups", c.name)} title={tn("inGroups", c.name)} onClick={(e) => openMenu(e.currentTarget, own.map((g) => ({ text: g.name, icon: mine.includes(g) ? "check" : "group", run: () => setMember(g, c, !mine.includes(g)) })))}><Icon name="group" /></button>}
        {may && <button class="tool" aria-label={t("delete")} title={`${t("delete")} (#)`} onClick={() => deleteContact(c)}><Icon name="trash" /></button>}
      </div>
      <div class="reader person" tabIndex={0}>
        <header><Face c={c} size={88} /><div><h1 ref={head} tabIndex={-1} dir="auto">{c.name || tn("noName")}<Mark of={c.standing} /></h1>
          {Object.values(card.nicknames ?? {}).map((n) => <p class="quiet" dir="auto">“{n.name}”</p>)}
          {work.map((w) => <p class="quiet" dir="auto">{w}</p>)}</div></header>
        <dl>
          {Object.entries(card.emails ?? {}).map(([id, e]) => <Line key={id} icon="unread" name={tn("emails")} kind={contextText(e)}><a href={`/mail/inbox?mailto=${encodeURIComponent(`mailto:${c.name ? `${encodeURIComponent(`"${c.name.replaceAll('"', "")}"`)} <${e.address}>` : e.address}`)}`}>{e.address}</a></Line>)}
          {Object.entries(card.phones ?? {}).map(([id, p]) => <Line key={id} icon="phone" name={tn("phones")} kind={contextText(p)}><a href={`tel:${p.number.replace(/[^\d+*#]/gu, "")}`}>{p.number}</a></Line>)}
          {Object.entries(card.addresses ?? {}).map(([id, a]) => <Line key={id} icon="place" name={tn("mapOf")} kind={contextText(a)}>{addressLines(a).map((l) => <span class="block" dir="auto">{l}</span>)}</Line>)}
          {Object.entries(card.links ?? {}).map(([id, l]) => <Line key={id} icon="link" name={tn("links")} kind={contextText(l)}>{webLink(l.uri) ? <a href={l.uri} target="_blank" rel="noopener noreferrer">{l.uri.replace(/^https?:\/\/|\/$/gu, "")}</a> : l.uri}</Line>)}
          {day(card, "birth") && <Line icon="calendar" name={tn("birthday")} kind={tn("birthday")}>{day(card, "birth")}</Line>}
          {day(card, "wedding") && <Line icon="calendar" name={tn("anniversary")} kind={tn("anniversary")}>{day(card, "wedding")}</Line>}
          {Object.entries(card.notes ?? {}).map(([id, n]) => <Line key={id} icon="drafts" name={tn("notes")} kind=""><span class="note" dir="auto">{n.note}</span></Line>)}
          {mine.length > 0 && <Line icon="group" name={tn("groups")} kind="">{mine.map((g) => <button key={g.key} class="chip" onClick={() => showPlace("group", g.key)}>{g.name}</button>)}</Line>}
          {book && <Line icon="contacts" name={tn("bookOf")} kind="">{book.name}{book.owner && ` · ${book.owner}`}</Line>}
        </dl>
        {!may && <p class="quiet">{tn("readOnly")}</p>}
      </div>
    </section>
  );
}

function Line({ icon, name, kind, children }: { icon: IconName; name: string; kind: string; children: preact.ComponentChildren }) {
  return <div class="person-line"><dt><Icon name={icon} /><span class="visually-hidden">{name}</span></dt><dd>{children}{kind && <small>{kind}</small>}</dd></div>;
}
