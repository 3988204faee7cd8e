// Foreign HTML: made harmless, shown in a frame of its own, and loads nothing from elsewhere until asked.
//
// Three fences, each enough alone: DOMPurify takes out what could run or load; the frame has no scripts
// (sandbox) ; and the document in it is the server's /mail-frame, whose content security policy lets nothing in
// but styles and pictures that are there already (or, when the person asks, pictures from the Internet).

import DOMPurify from "dompurify";
import { unescaped } from "./quoted";
import { keepDeclarations, noTone, type Tone } from "./styles";

export interface Safe {
  html: string;
  /** Something of it would be loaded from elsewhere. */
  remote: boolean;
}

const elsewhere = /^\s*(?:https?:)?\/\//iu;

/** Attributes that are no addresses: the rule for those is not theirs, by which DOMPurify would leave out "#fff" and "2" too. It does not know some of the old ones. */
const plainAttributes = [
  "align", "valign", "bgcolor", "border", "bordercolor", "cellpadding", "cellspacing", "width", "height", "colspan", "rowspan", "span", "scope", "headers", "abbr", "nowrap", "rules", "frame",
  "color", "hidden", "usemap", "shape", "coords", "face", "size", "noshade", "hspace", "vspace", "clear", "dir", "lang", "start", "type", "reversed", "compact", "datetime", "open", "text", "link", "vlink", "alink", "marginwidth", "marginheight", "leftmargin", "rightmargin", "topmargin", "bottommargin",
];

/** Reads styles: the browser resolves escapes and comments, so that they hide nothing. Of a document that is never shown, so that nothing loads; set by script, so that the page's policy does not stop it. */
const reader = document.implementation.createHTMLDocument("").createElement("span").style;

export type Cids = (cid: string) => string | undefined;

/** Keeps of an element's style what is listed. Says that something would have been loaded from elsewhere. */
export function restyle(e: Element, style: string, load: boolean, tone: Tone): boolean {
  reader.cssText = style;
  const kept = keepDeclarations(reader, load, tone, e.tagName === "A");
  if (kept.text) e.setAttribute("style", kept.text);
  else e.removeAttribute("style");
  return kept.remote;
}

/** Lets a link lead to other pages, in a window of their own, or within the message if inside says so. */
function relink(e: Element, inside: boolean): void {
  const href = (e.getAttribute("href") ?? "").trim();
  e.removeAttribute("target");
  if (inside && href.startsWith("#")) return;
  if (!/^(?:https?:|mailto:)/iu.test(href)) e.removeAttribute("href");
  e.setAttribute("target", "_blank");
  e.setAttribute("rel", "noopener noreferrer nofollow");
}

/** Makes the addresses of an element harmless. Says that something would have been loaded from elsewhere. */
export function readdress(e: Element, load: boolean, cids: Cids, inside = false): boolean {
  let remote = false;
  if (e.tagName === "A" || e.tagName === "AREA") relink(e, inside);
  for (const name of ["src", "background", "poster"]) {
    const value = e.getAttribute(name);
    if (value === null) continue;
    if (/^cid:/iu.test(value)) {
      const url = cids(unescaped(value.slice(4)));
      if (url) e.setAttribute(name, url);
      else e.removeAttribute(name);
    } else if (elsewhere.test(value)) {
      remote = true;
      if (!load) {
        e.setAttribute("data-remote", value);
        e.removeAttribute(name);
      }
    } else if (!/^(?:data:image\/(?:png|jpe?g|gif|webp|bmp)[;,]|blob:)/iu.test(value)) e.removeAttribute(name);
  }
  e.removeAttribute("srcset");
  return remote;
}

const forbidden = ["style", "form", "input", "button", "select", "textarea", "option", "svg", "math", "meta", "link", "base", "iframe", "frame", "frameset", "object", "embed", "video", "audio", "source", "template", "dialog", "title"];
/** Elements that go with what is in them. A video is not among them: it holds what is shown where there are no videos. */
const forbiddenContents = ["annotation-xml", "colgroup", "desc", "foreignobject", "head", "iframe", "math", "mi", "mn", "mo", "ms", "mtext", "noembed", "noframes", "noscript", "plaintext", "script", "select", "style", "svg", "template", "textarea", "thead", "title", "xmp"];
export const forbiddenAttributes = ["name", "tabindex", "accesskey", "contenteditable", "autofocus", "ping", "form", "formaction"];
export const settings = {
  ALLOW_DATA_ATTR: false, ADD_ATTR: ["target", ...plainAttributes], ADD_URI_SAFE_ATTR: plainAttributes, ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|cid:|blob:|data:image\/|\/\/|#)/iu,
  USE_PROFILES: { html: true }, FORBID_TAGS: forbidden, FORBID_CONTENTS: forbiddenContents,
};

/** Makes HTML harmless. Pictures from elsewhere keep their address in data-remote, unless load says so. Style sheets, and names that they go by, are left out. */
export function safeHTML(html: string, load = false, cids: Cids = () => undefined): Safe {
  let remote = false;
  const tone = noTone();
  const purify = DOMPurify(window);
  purify.addHook("afterSanitizeAttributes", (node) => {
    const e = node as Element;
    if (readdress(e, load, cids)) remote = true;
    const style = e.getAttribute("style");
    if (style !== null && restyle(e, style, load, tone)) remote = true;
  });
  const out = purify.sanitize(html, { ...settings, FORBID_ATTR: [...forbiddenAttributes, "id", "class"] });
  purify.removeAllHooks();
  return { html: out, remote };
}
