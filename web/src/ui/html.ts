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
    if (style && /url\s*\(|@import|expression|position\s*:\s*(?:fixed|sticky)/iu.test(style)) {
      if (/url\s*\(\s*['"]?\s*(?:https?:)?\/\//iu.test(style)) remote = true;
      e.setAttribute("style", style.replace(/[^;]*(?:url\s*\(|@import|expression|position\s*:\s*(?:fixed|sticky))[^;]*;?/giu, ""));
    }
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
