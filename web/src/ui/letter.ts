// A message as it is read: made harmless as all foreign HTML (html.ts), with its style sheets and the attributes of its body.

import DOMPurify from "dompurify";
import { forbiddenAttributes, readdress, restyle, settings, type Cids, type Safe } from "./html";
import { keepSheets } from "./rules";
import { noTone, type Tone } from "./styles";

/** A message as its frame shows it. */
export interface Letter extends Safe {
  /** Its style sheets. */
  sheets: string;
  /** Attributes of its body. */
  body: [name: string, value: string][];
  tone: Tone;
}

const ofBody = /^(?:class|style|bgcolor|background|dir|lang|text|[av]?link|margin(?:width|height)|(?:left|right|top|bottom)margin)$/u;
const ofRoot = /^(?:dir|lang)$/u;

/** The attributes of a letter's body. Where it has none, those of its root count: a frame's root is its own. */
function bodyOf(root: HTMLElement): [name: string, value: string][] {
  const taken = (e: Element | null, which: RegExp) => Array.from(e?.attributes ?? []).filter((a) => which.test(a.name)).map((a): [string, string] => [a.name, a.value]);
  return [...new Map([...taken(root, ofRoot), ...taken(root.querySelector("body"), ofBody)])];
}

/** Colours that attributes set. */
function noteColours(e: Element, tone: Tone): void {
  const ground = e.getAttribute("bgcolor");
  if (ground && !/^(?:#?f{3}(?:f{3})?|white|transparent)$/iu.test(ground.trim())) tone.designed = true;
  const text = e.getAttribute(e.tagName === "BODY" ? "text" : "color");
  if (text && !/^(?:#?0{3}(?:0{3})?|black)$/iu.test(text.trim())) tone.designed = true;
  if (e.hasAttribute("background") || e.hasAttribute("data-remote") && e.tagName !== "IMG") tone.designed = true;
}

/**
 * Makes a message harmless that is read in a frame of its own: with its style sheets, and the attributes of its body. It is
 * parsed by the frame's window, since the page's policy would report each style attribute, which takes longer than all else;
 * but one with scripts by the page's, since the frame would report each of those. Neither runs anything.
 */
export function safeLetter(html: string, load: boolean, dark: boolean, cids: Cids, within: Window): Letter {
  let remote = false, elements = 0;
  const tone = noTone();
  const css: string[] = [];
  const purify = DOMPurify(/<script|[\s"'/]on\w+\s*=|javascript:/iu.test(html) ? window : (within as unknown as typeof window));
  purify.addHook("uponSanitizeElement", (node, data) => {
    const e = node as Element;
    if (data.tagName === "style") {
      const media = e.getAttribute("media")?.replace(/[{}]/gu, "");
      css.push(media ? `@media ${media} {${e.textContent}}` : (e.textContent ?? ""));
    } else if (data.tagName === "meta" && /color-scheme/iu.test(e.getAttribute("name") ?? "") && /\bdark\b/iu.test(e.getAttribute("content") ?? "")) tone.saysDark = true;
  });
  purify.addHook("beforeSanitizeAttributes", (node) => {
    const e = node as Element, name = e.tagName === "A" && !e.id && e.getAttribute("name");
    if (name) e.id = name; // links within the message lead to it
  });
  purify.addHook("uponSanitizeAttribute", (node, data) => {
    if (data.attrName === "name" && (node as Element).tagName === "MAP") data.forceKeepAttr = true; // pictures go by it
  });
  purify.addHook("afterSanitizeAttributes", (node) => {
    const e = node as Element;
    elements++;
    if (readdress(e, load, cids, true)) remote = true;
    const style = e.getAttribute("style");
    if (style !== null && restyle(e, style, load, tone)) remote = true;
    noteColours(e, tone);
  });
  const out = purify.sanitize(html, { ...settings, FORBID_ATTR: forbiddenAttributes, WHOLE_DOCUMENT: true, RETURN_DOM: true }) as unknown as HTMLElement;
  purify.removeAllHooks();
  const sheets = keepSheets(css, elements, load, dark, tone);
  return { html: out.querySelector("body")?.innerHTML ?? "", remote: remote || sheets.remote, sheets: sheets.text, body: bodyOf(out), tone };
}
