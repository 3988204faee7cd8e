// Pasted text of Word, Google Docs and pages: words, emphasis, lists and links stay, other looks go.

/** Wraps what an element holds. */
function wrap(e: Element, tag: string): void {
  const inner = e.ownerDocument.createElement(tag);
  inner.append(...e.childNodes);
  e.append(inner);
}

/** Turns the emphasis in a style into elements of the editor. */
function emphasize(e: Element, style: string): void {
  if (/(?:^|;)\s*font-weight\s*:\s*(?:bold|[6-9]00)/iu.test(style) && !/^(?:B|STRONG|H[1-6])$/u.test(e.tagName)) wrap(e, "strong");
  if (/font-style\s*:\s*italic/iu.test(style) && !/^(?:I|EM)$/u.test(e.tagName)) wrap(e, "em");
  if (/text-decoration[a-z-]*\s*:[^;]*underline/iu.test(style) && !/^(?:U|A)$/u.test(e.tagName) && !e.closest("a")) wrap(e, "u");
  if (/text-decoration[a-z-]*\s*:[^;]*line-through/iu.test(style) && !/^(?:S|STRIKE|DEL)$/u.test(e.tagName)) wrap(e, "s");
}

/** Makes lists of Word's paragraphs that look like them. */
function makeLists(holder: Element): void {
  let list: Element | null = null;
  for (const p of [...holder.querySelectorAll("p")]) {
    const of = p.getAttribute("data-style") ?? "";
    if (!/mso-list\s*:\s*l\d/iu.test(of) && !/MsoListParagraph/u.test(p.className)) {
      list = null;
      continue;
    }
    const mark = [...p.querySelectorAll("[data-style]")].find((e) => /mso-list\s*:\s*ignore/iu.test(e.getAttribute("data-style")!));
    const tag = /^\s*(?:\d+|[a-z]{1,3})[.)]/iu.test(mark?.textContent ?? p.textContent ?? "") ? "ol" : "ul";
    if (mark) mark.remove();
    else if (p.firstChild?.nodeType === 3) p.firstChild.nodeValue = p.firstChild.nodeValue!.replace(/^\s*(?:[·•o§-]|\d+[.)])\s+/u, "");
    if (!list || list.tagName.toLowerCase() !== tag || list.nextElementSibling !== p) {
      list = holder.ownerDocument.createElement(tag);
      p.before(list);
    }
    const item = holder.ownerDocument.createElement("li");
    list.append(item);
    item.append(p);
  }
}

/** Returns pasted markup without the looks of where it comes from. */
export function withoutOffice(html: string): string {
  const body = /<!--StartFragment-->([\s\S]*?)<!--EndFragment-->/u.exec(html)?.[1] ?? html;
  // As data, so that the page's policy has nothing to say of styles that are read and never applied.
  const bare = body
    .replace(/<!--[\s\S]*?-->|<!\[[^\]]*\]>/gu, "")
    .replace(/<(style|script|title|xml|head)\b[\s\S]*?<\/\1\s*>/giu, "")
    .replace(/<\/?(?:o:p|meta|link|w:|v:|st1:)[^>]*>/giu, "")
    .replace(/(<[a-z][^>]*?)\sstyle\s*=/giu, "$1 data-style=");
  const template = document.createElement("template");
  const holder = template.content.ownerDocument.createElement("div");
  holder.innerHTML = bare;
  makeLists(holder);
  for (const e of [...holder.querySelectorAll("*")]) {
    const style = e.getAttribute("data-style") ?? "";
    // Google Docs puts all into a <b> that is not bold.
    const plain = /^(?:B|STRONG)$/u.test(e.tagName) && /(?:^|;)\s*font-weight\s*:\s*(?:normal|400)/iu.test(style);
    if (!plain) emphasize(e, style);
    if (plain || /^(?:SPAN|FONT)$/u.test(e.tagName)) {
      e.replaceWith(...e.childNodes);
      continue;
    }
    for (const { name } of [...e.attributes]) if (!/^(?:href|src|alt|width|height|start)$/u.test(name)) e.removeAttribute(name);
  }
  return holder.innerHTML;
}
