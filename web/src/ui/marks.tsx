// Marks in an opened message what a search found: the words that the server understood, in the text and in the frames of HTML. The CSS
// Custom Highlight API marks without changing the message; a browser without it gets <mark> around the words of the message.

import { useEffect } from "preact/hooks";
import type { RefObject } from "preact";
import { place } from "../state/place";
import { understood, type Term } from "../state/search";

/** The most words marked in a document, and the most of a text searched. */
const most = 2000;
const longest = 2_000_000;
const name = "search-hit";
const look = `::highlight(${name}) { background-color: #ffe08a; color: #1a1a1a; } mark.${name} { background-color: #ffe08a; color: #1a1a1a; }`;

/** The words to mark: in bodies, and in the subject. */
function wanted(list: Term[], field: "body" | "subject", out: string[] = []): string[] {
  for (const t of list) {
    if (t.not) continue;
    if (t.of) wanted(t.of, field, out);
    else if (t.kind === "text" || t.kind === field) out.push(t.value ?? "");
  }
  return out;
}

/** Folds case and accents without moving any character. */
function fold(s: string): string {
  let out = "";
  for (const c of s) {
    const plain = c.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
    out += plain.length === c.length ? plain : c;
  }
  return out;
}

/** Finds whole words, or the beginning or end that a star leaves open, as the server does; scripts without blanks anywhere. */
export function pattern(values: string[]): RegExp | null {
  const parts = values.flatMap((v) => {
    const words = fold(v).match(/[\p{L}\p{N}]+/gu);
    if (!words) return [];
    const inner = words.join("[^\\p{L}\\p{N}]+");
    const free = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u.test(inner);
    const before = free || v.startsWith("*") ? "" : "(?<![\\p{L}\\p{N}])";
    const after = free || v.endsWith("*") ? "" : "(?![\\p{L}\\p{N}])";
    return [before + inner + after];
  });
  return parts.length > 0 ? new RegExp(parts.join("|"), "gu") : null;
}

/** The places of a pattern in the text below an element. */
function places(root: Element, find: RegExp): Range[] {
  const out: Range[] = [];
  const d = root.ownerDocument;
  const walker = d.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let left = longest, n = walker.nextNode(); n && left > 0 && out.length < most; n = walker.nextNode()) {
    const text = fold(n.nodeValue ?? "");
    left -= text.length;
    for (const m of text.matchAll(find)) {
      if (out.length >= most) break;
      const r = d.createRange();
      r.setStart(n, m.index);
      r.setEnd(n, m.index + m[0].length);
      out.push(r);
    }
  }
  return out;
}

type Window_ = Window & typeof globalThis;

const styled = new WeakSet<Document>();

/** Marks what find gives of one document, and takes away the marks from before. */
function mark(d: Document, find: () => Range[]): void {
  const w = d.defaultView as Window_ | null;
  if (!w) return;
  if (!styled.has(d)) {
    styled.add(d);
    const sheet = new w.CSSStyleSheet();
    sheet.replaceSync(look);
    d.adoptedStyleSheets = [...d.adoptedStyleSheets, sheet];
  }
  if (w.CSS?.highlights && w.Highlight) {
    const ranges = find();
    if (ranges.length > 0) w.CSS.highlights.set(name, new w.Highlight(...ranges));
    else w.CSS.highlights.delete(name);
    return;
  }
  for (const m of d.querySelectorAll(`mark.${name}`)) {
    const parent = m.parentNode!;
    m.replaceWith(...m.childNodes);
    parent.normalize();
  }
  // From the last to the first: a mark cuts its text, and what is behind the cut moves.
  for (const r of find().reverse()) {
    if (r.startContainer.parentElement?.closest("h1")) continue; // Preact's: it would lose its text
    const m = d.createElement("mark");
    m.className = name;
    r.surroundContents(m);
  }
}

/** Keeps the marks as the message and the search are. */
export function Marks({ root }: { root: RefObject<HTMLElement | null> }) {
  const terms = place.value.search ? understood.value?.terms : undefined;
  useEffect(() => {
    const top = root.current;
    if (!top) return undefined;
    const body = pattern(wanted(terms ?? [], "body"));
    const subject = pattern(wanted(terms ?? [], "subject"));
    const watched = new Set<Document>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const watch = new MutationObserver(() => {
      clearTimeout(timer);
      timer = setTimeout(all, 50);
    });
    const frames = () => [...top.querySelectorAll("iframe")];
    const listen = () => {
      watch.observe(top, { childList: true, subtree: true });
      for (const f of frames()) {
        f.addEventListener("load", all);
        const d = f.contentDocument;
        if (!d?.body) continue;
        watched.add(d);
        watch.observe(d.documentElement, { childList: true, subtree: true });
      }
    };
    function all(): void {
      watch.disconnect();
      for (const d of watched) if (!d.defaultView) watched.delete(d); // its frame is gone
      const title = top!.querySelector("h1");
      mark(document, () => [...(title && subject ? places(title, subject) : []), ...(body ? [...top!.querySelectorAll(".body .plain")].flatMap((e) => places(e, body)) : [])]);
      for (const f of frames()) {
        const d = f.contentDocument;
        if (d?.body) mark(d, () => (body ? places(d.body, body) : []));
      }
      listen();
    }
    all();
    return () => {
      watch.disconnect();
      clearTimeout(timer);
      for (const f of frames()) f.removeEventListener("load", all);
      for (const d of [document, ...watched]) mark(d, () => []);
    };
  }, [terms]);
  return null;
}
