// The list of contacts, by letters.

import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { loaded, type Contact } from "../../state/cards";
import { letterOf } from "../../state/cardname";
import { drawnAs } from "../../state/objects";
import { sideOpen } from "../../state/screen";
import { count, t } from "../../text";
import { tn } from "../../text/contacts";
import { Icon } from "../icons";
import { Mark, Unsaved } from "../unsaved";
import { Face } from "./face";
import { cardKey, doubles, merge, openCard, place, search, shown } from "./open";

/** Rows that are made at first, and so many more each time when one scrolls to the end. */
const piece = 200;

export function ContactList({ title }: { title: string }) {
  const scroll = useRef<HTMLDivElement>(null);
  const most = useSignal(piece);
  useEffect(() => {
    most.value = piece;
    scroll.current?.scrollTo(0, 0);
  }, [place.value.kind, place.value.key, search.value]);
  const list = shown.value;
  const letters = [...new Set(list.map((c) => letterOf(c.sort)))];
  const jump = (l: string) => {
    const at = list.findIndex((c) => letterOf(c.sort) === l);
    most.value = Math.max(most.value, at + piece);
    requestAnimationFrame(() => document.getElementById(`letter-${l}`)?.scrollIntoView());
  };
  return (
    <section class="pane list" aria-label={title}>
      <div class="bar">
        <button class="tool menu-tool" aria-label={t("menu")} onClick={() => (sideOpen.value = true)}><Icon name="menu" /></button>
        <h2>{title}</h2><span class="quiet" role="status">{tn("count", count(place.value.kind === "doubles" ? doubles.value.flat().length : list.length))}</span>
      </div>
      <Unsaved types={["ContactCard"]} />
      {place.value.kind === "doubles" ? <Doubles /> : (
        <div class="contact-scroll">
          <div class="contact-rows" ref={scroll} tabIndex={-1} onScroll={(e) => { const x = e.currentTarget; if (x.scrollTop + x.clientHeight > x.scrollHeight - 600 && most.value < list.length) most.value += piece; }}>
            {list.slice(0, most.value).map((c, i) => <Row key={drawnAs(c.key)} c={c} head={i === 0 || letterOf(list[i - 1]!.sort) !== letterOf(c.sort)} />)}
            {list.length === 0 && loaded.value && <div class="no-contacts"><h3>{search.value ? tn("noneFound") : tn("none")}</h3>{!search.value && <p>{tn("noneHint")}</p>}</div>}
          </div>
          {list.length > 20 && <nav class="letters" aria-label={tn("letters")}>{letters.map((l) => <button key={l} onClick={() => jump(l)}>{l}</button>)}</nav>}
        </div>
      )}
    </section>
  );
}

function Row({ c, head }: { c: Contact; head: boolean }) {
  const letter = letterOf(c.sort);
  const below = Object.values(c.card.emails ?? {})[0]?.address ?? Object.values(c.card.phones ?? {})[0]?.number ?? Object.values(c.card.organizations ?? {})[0]?.name ?? "";
  return (
    <>
      {head && <h3 class="letter-head" id={`letter-${letter}`}>{letter}</h3>}
      <button class="contact-row" data-contact={c.key} aria-current={cardKey.value === c.key} onClick={() => openCard(c.key)}>
        <span class="face-cell"><Face c={c} size={34} /></span>
        <span class="what"><b dir="auto">{c.name || tn("noName")}<Mark of={c.standing} /></b>{below !== c.name && <small>{below}</small>}</span>
      </button>
    </>
  );
}

function Doubles() {
  return (
    <div class="contact-rows doubles" tabIndex={0}>
      <p class="quiet">{doubles.value.length > 0 ? tn("doublesHint") : tn("doublesNone")}</p>
      {doubles.value.map((list) => (
        <div class="double" key={list[0]!.key}>
          {list.map((c) => <Row key={drawnAs(c.key)} c={c} head={false} />)}
          <button class="button" onClick={() => void merge(list)}>{tn("merge")}</button>
        </div>
      ))}
    </div>
  );
}
