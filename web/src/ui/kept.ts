// A quotation with looks that the editor has no words for (layouts, colours, borders) stays as it is: a block in the text, shown in a
// frame as a message is when it is read, that is sent unchanged, made into plain writing, or taken out. What comes here was made
// harmless before (html.ts).

import { DOMParser, type Node, type NodeSpec } from "prosemirror-model";
import type { EditorView, NodeView } from "prosemirror-view";
import { t } from "../text";
import { fill, fit } from "./fit";
import { safeHTML } from "./html";
import { withoutOffice } from "./pasted";
import { isPlainTable } from "./table";

export const kept: NodeSpec = {
  group: "block", atom: true, selectable: true, attrs: { html: { validate: "string" } },
  parseDOM: [{ tag: "div[data-kept]", getAttrs: (e) => ({ html: e.getAttribute("data-kept") ?? "" }) }],
  toDOM: (node) => ["div", { "data-kept": node.attrs["html"] as string }],
};

/** An element of a template's document: nothing in it loads, runs or is styled; the page's policy reports its style attributes as it would in the page. */
export function inert(html: string): HTMLElement {
  const template = document.createElement("template");
  const holder = template.content.ownerDocument.createElement("div");
  holder.innerHTML = html;
  return holder;
}

const richAttributes = "table, center, [bgcolor], [background], [align=center i], [align=right i]";
const richStyle = /(?:^|;)\s*(?:background(?:-color)?\s*:(?!\s*(?:#fff(?:fff)?|white|transparent|none|initial|inherit)\b)|border(?:-(?:left|right|top|bottom))?(?:-color|-style|-width)?\s*:(?!\s*(?:none|0|initial|inherit)\b)|color\s*:(?!\s*(?:#000(?:000)?|black|inherit|initial|windowtext|rgb\(0,\s*0,\s*0\))\s*(?:;|$))|text-align\s*:\s*(?:center|right)|float\s*:\s*(?:left|right))/iu;

function isRich(e: Element): boolean {
  return [e, ...e.querySelectorAll("*")].some((x) => x.matches(richAttributes) || richStyle.test(x.getAttribute("style") ?? ""));
}

/** Marks in a text what is kept as it is; in a quote, what of it. */
export function markKept(holder: Element): void {
  let run: Element | null = null;
  for (const child of [...holder.childNodes]) {
    const e = child.nodeType === 1 ? (child as Element) : null;
    if (e?.hasAttribute("data-kept")) run = null;
    else if (e?.tagName === "BLOCKQUOTE" && !e.hasAttribute("style")) {
      markKept(e);
      run = null;
    } else if (e && !isPlainTable(e) && isRich(e)) {
      for (const img of [e, ...e.querySelectorAll("img")]) {
        const src = img.getAttribute("src");
        if (src && /^(?:https?:)?\/\//iu.test(src)) {
          img.setAttribute("data-remote", src);
          img.removeAttribute("src");
        }
      }
      if (!run) {
        run = holder.ownerDocument.createElement("div");
        run.setAttribute("data-kept", "");
        e.before(run);
      }
      run.setAttribute("data-kept", run.getAttribute("data-kept") + e.outerHTML);
      e.remove();
    } else if (e || child.textContent?.trim()) run = null;
  }
}

/** Makes harmless what is pasted as if it were kept: it may be of anywhere. */
export function cleanPasted(html: string): string {
  if (!html.includes("data-kept")) return html.includes("data-pm-slice") ? html : withoutOffice(html);
  const holder = inert(html);
  for (const e of holder.querySelectorAll("[data-kept]")) {
    const pictures = new Map<string, string>();
    const named = (e.getAttribute("data-kept") ?? "").replace(/src="(\/[^"]*)#cid:([^"]+)"/gu, (_, url: string, cid: string) => {
      pictures.set(cid, `${url}#cid:${cid}`);
      return `src="cid:${cid}"`;
    });
    e.setAttribute("data-kept", safeHTML(named, false, (cid) => pictures.get(cid)).html);
  }
  return holder.innerHTML;
}

/** The markup as it is sent: pictures of elsewhere, which are not loaded while one writes, have their address again. */
export function sent(html: string): string {
  const holder = inert(html);
  for (const e of holder.querySelectorAll("[data-remote]")) {
    if (e.tagName === "IMG") e.setAttribute("src", e.getAttribute("data-remote")!);
    e.removeAttribute("data-remote");
  }
  return holder.innerHTML;
}

const lineOf = /^(?:P|DIV|TR|TABLE|LI|UL|OL|H[1-6]|BLOCKQUOTE|PRE|HR|CENTER|DD|DT|SECTION|ARTICLE|HEADER|FOOTER)$/u;

/** The text of markup: a line for each block and each row, the cells of a row behind each other. */
export function textOf(html: string): string {
  let out = "";
  const walk = (n: globalThis.Node): void => {
    if (n.nodeType === 3) out += (n.textContent ?? "").replace(/[ \t\r\n]+/gu, " ");
    if (n.nodeType !== 1) return;
    const name = (n as Element).tagName;
    if (name === "BR") out += "\n";
    else if (/^T[DH]$/u.test(name)) out += " ";
    else if (lineOf.test(name)) out += "\n";
    n.childNodes.forEach(walk);
    if (lineOf.test(name)) out += "\n";
  };
  inert(html).childNodes.forEach(walk);
  return out.replace(/ +/gu, " ").replace(/ *\n */gu, "\n").replace(/\n{3,}/gu, "\n\n").trim();
}

/** Shows a kept block. */
export function keptView(node: Node, view: EditorView, at: () => number | undefined): NodeView {
  const dom = document.createElement("div");
  dom.className = "kept";
  dom.contentEditable = "false";
  const frame = document.createElement("iframe");
  const box = document.createElement("div");
  box.className = "letter";
  box.append(frame);
  frame.title = t("quotedAsIs");
  frame.setAttribute("sandbox", "allow-same-origin"); // no scripts in it; same origin, so that its height can be read
  frame.src = "/mail-frame";
  let end: (() => void) | undefined;
  frame.addEventListener("load", () => {
    const shown = frame.contentDocument;
    if (!shown?.body) return;
    fill(shown, { html: node.attrs["html"] as string });
    end?.();
    end = fit(frame, box);
    shown.body.addEventListener("click", (e) => e.preventDefault()); // a link in it leads away from what is written
  });
  const bar = document.createElement("div");
  bar.className = "kept-bar";
  const button = (text: string, run: (pos: number) => void) => {
    const b = document.createElement("button");
    b.type = "button";
    b.className = "button";
    b.textContent = text;
    b.addEventListener("click", () => {
      const pos = at();
      if (pos !== undefined) run(pos);
      view.focus();
    });
    bar.append(b);
  };
  button(t("quotedEdit"), (pos) => {
    const doc = DOMParser.fromSchema(view.state.schema).parse(inert(node.attrs["html"] as string));
    view.dispatch(view.state.tr.replaceWith(pos, pos + 1, doc.content));
  });
  button(t("quotedRemove"), (pos) => view.dispatch(view.state.tr.delete(pos, pos + 1)));
  dom.append(box, bar);
  return { dom, stopEvent: (e) => bar.contains(e.target as globalThis.Node), ignoreMutation: () => true, destroy: () => end?.() };
}
