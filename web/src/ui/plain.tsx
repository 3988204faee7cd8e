// Plain text: links in it can be followed, what is quoted is folded away, and a long one is shown piece by piece, since a browser
// takes seconds for a paragraph of megabytes. What is left is said before the text and behind it.

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { size, t } from "../text";
import { splitQuoted } from "./quoted";

/** The most characters of a piece, the number of pieces shown at first, and the number added at a time. */
const pieceLength = 16_000;
const pieceCount = 4;
/** The number of pieces made between two frames if all are asked for. */
const atOnce = 32;

const address = /(https?:\/\/[^\s<>"']+[^\s<>"'.,;:!?)\]])/giu;

/** Cuts a text behind lines; where a line is as long as a piece, behind a blank, or within it. */
export function pieces(text: string): string[] {
  const list: string[] = [];
  let from = 0;
  while (text.length - from > pieceLength) {
    let to = text.lastIndexOf("\n", from + pieceLength - 1) + 1;
    if (to <= from) to = text.lastIndexOf(" ", from + pieceLength - 1) + 1;
    if (to <= from) to = from + pieceLength - (/[\ud800-\udbff]/u.test(text[from + pieceLength - 1]!) ? 1 : 0);
    list.push(text.slice(from, to));
    from = to;
  }
  list.push(text.slice(from));
  return list;
}

function Piece({ text, alone, bare }: { text: string; alone: boolean; bare: boolean }) {
  const at = useRef<HTMLParagraphElement>(null);
  // Made without Preact, which would keep several objects for every link of a text of megabytes.
  useLayoutEffect(() => at.current!.replaceChildren(...(bare ? [text] : text.split(address)).map((s, i) => {
    if (i % 2 === 0) return s;
    const a = document.createElement("a");
    Object.assign(a, { href: s, target: "_blank", rel: "noopener noreferrer nofollow", textContent: s });
    return a;
  })), [text, bare]);
  // The browser lays out only what is seen of many pieces, and takes the others for as high as their lines let expect.
  return useMemo(() => {
    if (alone) return <p ref={at} class="plain" dir="auto" />;
    const lines = Math.max(text.split("\n").length, text.length / 100);
    return <p ref={at} class="plain piece" dir="auto" style={{ containIntrinsicBlockSize: `auto ${Math.ceil(lines * 1.45)}em` }} />;
  }, [text, alone]);
}

/** The rest of a text that came cut: the size of the whole, and the function that reads it. */
export interface Rest {
  of: number;
  read: () => Promise<void>;
}

/** Shows that a text goes on. */
export function Left({ shown, of, more, all }: { shown: number; of: number; more?: () => void; all: () => void }) {
  return (
    <div class="notice left">
      <span>{t("longText", size(shown), size(of))}</span>
      {more && <button class="button" onClick={more}>{t("showMore")}</button>}
      <button class="button" onClick={all}>{t("showAll")}</button>
    </div>
  );
}

/** A text in pieces; with links, unless it is bare. */
export function Long({ text, rest, bare = false }: { text: string; rest?: Rest | undefined; bare?: boolean }) {
  const list = useMemo(() => pieces(text), [text]);
  const count = useSignal(pieceCount);
  const everything = useSignal(false);
  const end = useRef<HTMLDivElement>(null);
  const here = Math.min(count.value, list.length);
  const left = here < list.length || !!rest;
  const more = () => {
    count.value = here + pieceCount;
    if (here === list.length) void rest?.read();
  };
  const all = () => {
    everything.value = true;
    void rest?.read();
  };
  useEffect(() => {
    if (!everything.value || here === list.length) return;
    const next = requestAnimationFrame(() => (count.value = here + atOnce));
    return () => cancelAnimationFrame(next);
  }, [everything.value, here, list]);
  // Scrolling to the end shows more.
  useEffect(() => {
    if (!end.current) return;
    const watch = new IntersectionObserver((seen) => seen.some((s) => s.isIntersecting) && more());
    watch.observe(end.current);
    return () => watch.disconnect();
  }, [left, here, list]);
  const shown = useMemo(() => list.slice(0, here).reduce((n, p) => n + p.length, 0), [list, here]);
  const of = rest?.of ?? text.length;
  return (
    <>
      {left && <Left shown={shown} of={of} all={all} />}
      {list.slice(0, here).map((p, i) => <Piece key={i} text={p} alone={list.length === 1} bare={bare} />)}
      {left && <div ref={end}><Left shown={shown} of={of} more={more} all={all} /></div>}
    </>
  );
}

export function Plain({ text, rest }: { text: string; rest?: Rest | undefined }) {
  const shown = useSignal(false);
  const { own, quoted } = useMemo(() => splitQuoted(text), [text]);
  return (
    <>
      <Long text={own} rest={rest} />
      {quoted && (
        <>
          <button class="chip" aria-expanded={shown.value} onClick={() => (shown.value = !shown.value)}>{shown.value ? t("hideQuoted") : t("showQuoted")}</button>
          {shown.value && <div class="quoted"><Long text={quoted} /></div>}
        </>
      )}
    </>
  );
}
