// Foreign HTML: made harmless, shown in a frame of its own, and loads nothing from elsewhere until asked.
//
// Three fences, each enough alone: DOMPurify takes out what could run or load; the frame has no scripts
// (sandbox) ; and the document in it is the server's /mail-frame, whose content security policy lets nothing in
// but styles and pictures that are there already (or, when the person asks, pictures from the Internet).

import DOMPurify from "dompurify";

export interface Safe {
  html: string;
  /** Something of it would be loaded from elsewhere. */
  remote: boolean;
}

const elsewhere = /^\s*(?:https?:)?\/\//iu;

/** Attributes that are no addresses: the rule for those is not theirs, by which DOMPurify would leave out "#fff" and "2" too. */
const plainAttributes = [
  "align", "valign", "bgcolor", "border", "cellpadding", "cellspacing", "width", "height", "colspan", "rowspan", "span", "scope", "headers", "abbr", "nowrap", "rules", "frame",
  "color", "face", "size", "noshade", "hspace", "vspace", "clear", "dir", "lang", "start", "type", "reversed", "compact", "datetime", "open",
];

/** Properties that a message may set: text, colours, sizes and tables. Nothing that loads, and nothing that leaves its place. */
const properties = /^(?:color|background-color|opacity|visibility|display|float|clear|direction|unicode-bidi|vertical-align|white-space(?:-collapse)?|table-layout|caption-side|empty-cells|box-sizing|cursor|border-collapse|border-spacing|(?:-webkit-)?border-(?:horizontal|vertical)-spacing|(?:min-|max-)?(?:width|height)|line-height|letter-spacing|word-(?:spacing|break|wrap)|overflow-wrap|hyphens|tab-size|list-style-(?:type|position)|font-(?:family|size|style|weight|stretch|variant(?:-caps)?)|text-(?:align(?:-last)?|decoration(?:-line|-style|-color|-thickness)?|indent|transform|overflow|wrap(?:-mode|-style)?|underline-offset)|margin-(?:top|right|bottom|left)|padding-(?:top|right|bottom|left)|border-(?:top|right|bottom|left)-(?:width|style|color)|border-(?:top|bottom)-(?:left|right)-radius)$/u;

/** Functions of values that compute, and load nothing. */
const computes = /\b(?:rgba?|hsla?|calc|min|max|clamp)\(/giu;

/** Reads styles: the browser resolves escapes and comments, so that they hide nothing. Of a document that is never shown, so that nothing loads; set by script, so that the page's policy does not stop it. */
const reader = document.implementation.createHTMLDocument("").createElement("span").style;

/** Keeps of an element's style what is listed. Says that something would have been loaded from elsewhere. */
function restyle(e: Element, style: string): boolean {
  reader.cssText = style;
  const kept: string[] = [];
  for (const name of Array.from(reader)) {
    const value = reader.getPropertyValue(name);
    if (properties.test(name) && !/[\\(<]/u.test(value.replace(computes, ""))) kept.push(`${name}: ${value}${reader.getPropertyPriority(name) && " !important"}`);
  }
  const remote = /(?:url|image-set|src)\(\s*["']?\s*(?:https?:)?\/\//iu.test(reader.cssText);
  if (kept.length > 0) e.setAttribute("style", kept.join("; "));
  else e.removeAttribute("style");
  return remote;
}

/** Makes HTML harmless. Pictures from elsewhere keep their address in data-remote, unless load says so. */
export function safeHTML(html: string, load = false, cids: (cid: string) => string | undefined = () => undefined): Safe {
  let remote = false;
  const purify = DOMPurify(window);
  purify.addHook("afterSanitizeAttributes", (node) => {
    const e = node as Element;
    if (e.tagName === "A" || e.tagName === "AREA") {
      const href = e.getAttribute("href") ?? "";
      if (!/^(?:https?:|mailto:)/iu.test(href.trim())) e.removeAttribute("href");
      e.setAttribute("target", "_blank");
      e.setAttribute("rel", "noopener noreferrer nofollow");
    }
    for (const name of ["src", "background", "poster"]) {
      const value = e.getAttribute(name);
      if (value === null) continue;
      if (/^cid:/iu.test(value)) {
        const url = cids(decodeURIComponent(value.slice(4)));
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
    const style = e.getAttribute("style");
    if (style !== null && restyle(e, style)) remote = true;
  });
  const out = purify.sanitize(html, {
    FORBID_TAGS: ["style", "form", "input", "button", "select", "textarea", "option", "svg", "math", "meta", "link", "base", "iframe", "frame", "frameset", "object", "embed", "video", "audio", "source", "template", "dialog", "title"],
    FORBID_ATTR: ["id", "name", "class", "tabindex", "accesskey", "contenteditable", "autofocus", "ping", "form", "formaction"],
    ALLOW_DATA_ATTR: false, ADD_ATTR: ["target"], ADD_URI_SAFE_ATTR: plainAttributes, ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|cid:|blob:|data:image\/|\/\/)/iu, USE_PROFILES: { html: true },
  });
  purify.removeAllHooks();
  return { html: out, remote };
}

/** Where what was quoted begins in plain text: lines with ">" at their end, and the line that introduces them. */
export function splitQuoted(text: string): { own: string; quoted: string } {
  const lines = text.trimEnd().split("\n");
  let i = lines.length;
  while (i > 0 && (/^\s*>/u.test(lines[i - 1]!) || lines[i - 1]!.trim() === "")) i--;
  if (i === lines.length || !lines.slice(i).some((l) => l.startsWith(">"))) return { own: text, quoted: "" };
  if (i > 0 && lines[i - 1]!.trimEnd().endsWith(":")) i--;
  return { own: lines.slice(0, i).join("\n"), quoted: lines.slice(i).join("\n") };
}
