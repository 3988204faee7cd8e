// Fits a message into its frame: as wide as the column if possible, else made smaller as phones do, else scrolled.

/** Smaller than this share of its size a message is not made: what is wider still is scrolled. */
const smallest = 0.5;
/** A frame of more pixels is scrolled inside. */
const highest = 1_000_000;

/** The style of what a message leaves open. The message's own sheets come after it. The sheet of paper below is the box's, so that a message's own background reaches its borders. A picture that is not loaded is as large as it says, with its words inside. */
const base = `
html{color:#1f2429}
body{max-width:-moz-available;max-width:-webkit-fill-available;font:15px/1.5 system-ui,sans-serif;overflow-wrap:break-word}
img{max-width:100%}
:where(img:not([src])){display:inline-block;overflow:hidden}
td img,th img{max-width:var(--widest)}
pre{white-space:pre-wrap}
blockquote{margin:8px 0;padding-left:12px;border-left:3px solid #dcd6c9;color:#565e67}
html[data-tone="dark"]{color-scheme:dark;color:#ebe8e1}
html[data-tone="dark"] blockquote{border-color:#4a535c;color:#a3abb4}
html[data-tone="dark"] a{color:#5fcbb0}
`;

/** Rules set last: a plain message has the page's colours, whatever black or white it names. */
const plainDark = `
body,body *:not(a):not(blockquote){color:inherit!important;background-color:transparent!important}
html body{color:#ebe8e1!important}
a,a *{color:#5fcbb0!important}
`;

/** Rules that no sheet of a message may change: its frame is as high as all of it. */
const held = {
  html: { margin: "0", padding: "0", width: "auto", height: "auto", "min-width": "0", "max-width": "none", "max-height": "none", float: "none", display: "block", overflow: "hidden" },
  body: { height: "auto", "max-height": "none", float: "none", display: "block", overflow: "visible" },
};

function hold(e: HTMLElement, styles: Record<string, string>): void {
  for (const [name, value] of Object.entries(styles)) e.style.setProperty(name, value, "important");
}

export interface Shown {
  html: string;
  sheets?: string;
  body?: [name: string, value: string][];
  /** light, dark with its own colours, or plain: dark with the page's. */
  tone?: "light" | "dark" | "plain" | undefined;
}

function sheet(d: Document, text: string): void {
  const style = d.createElement("style");
  style.textContent = text;
  d.head.append(style);
}

/** Puts a message into a frame's document. */
export function fill(d: Document, of: Shown): void {
  for (const old of d.head.querySelectorAll("style")) old.remove();
  for (const a of Array.from(d.body.attributes)) d.body.removeAttribute(a.name);
  for (const [name, value] of of.body ?? []) d.body.setAttribute(name, value);
  hold(d.documentElement, held.html);
  hold(d.body, held.body);
  d.documentElement.dataset["tone"] = of.tone === "light" || !of.tone ? "light" : "dark";
  sheet(d, base);
  if (of.sheets) sheet(d, of.sheets);
  if (of.tone === "plain") sheet(d, plainDark);
  d.body.innerHTML = of.html;
}

/** Pictures that state both sizes in attributes alone, with the height that goes with each width. */
function stated(d: Document): [img: HTMLImageElement, width: number, ratio: number][] {
  const sizes = Array.from(d.images, (img): [HTMLImageElement, number, number] => {
    const w = Number(img.getAttribute("width"));
    return [img, w, Number(img.getAttribute("height")) / w];
  });
  return sizes.filter(([img, w, ratio]) => w > 0 && ratio > 0 && Number.isFinite(ratio) && !img.style.width && !img.style.height);
}

/** A picture that had to become narrower becomes lower as much. A length, since one that is not loaded has no ratio. */
function keepRatios(of: ReturnType<typeof stated>): void {
  const widths = of.map(([img]) => img.width); // all are read before any is written: one layout
  of.forEach(([img, w, ratio], i) => (img.style.height = widths[i]! > 0 && widths[i]! < w ? `${widths[i]! * ratio}px` : ""));
}

/** The height of all of a message: what is higher than an element of a fixed height is not part of the root's. */
function heightOf(root: HTMLElement, body: HTMLElement): number {
  const top = root.getBoundingClientRect().top;
  return Math.max(root.getBoundingClientRect().bottom, body.getBoundingClientRect().top + body.scrollHeight) - top;
}

/** Keeps a frame as wide and high as its content needs, within the box around it. Returns what ends that. */
export function fit(frame: HTMLIFrameElement, box: HTMLElement): () => void {
  const d = frame.contentDocument!;
  const root = d.documentElement;
  const rightToLeft = d.body.querySelector("[dir=rtl i],[style*='direction: rtl']") !== null;
  const pictures = stated(d);
  let column = 0, width = 0, wide = false;
  const scrolled = (x: boolean, y: boolean) => hold(root, { "overflow-x": x ? "auto" : "hidden", "overflow-y": y ? "auto" : "hidden" });
  const needs = () => Math.max(root.scrollWidth, rightToLeft ? reach(d, width) : 0);
  const widen = () => {
    wide = false;
    root.removeAttribute("dir");
    scrolled(false, false);
    set(column);
    for (let round = 0; round < 4; round++) {
      const need = needs();
      if (need <= width + 1) return;
      if (column / need < smallest) break;
      set(need); // what is wider may need more: tables of percents, rules for a width
    }
    set(column);
    if (needs() <= column + 1) return;
    wide = true;
    scrolled(true, false);
    if (rightToLeft && root.scrollWidth <= column + 1) root.dir = "rtl"; // scrolled from the right
  };
  const set = (w: number) => {
    width = w;
    frame.style.width = `${w}px`;
    root.style.setProperty("--widest", `${Math.floor(column / smallest)}px`);
  };
  const measure = () => {
    const now = box.clientWidth;
    if (now === 0) return;
    if (now !== column || !wide && needs() > width + 1) {
      column = now;
      widen();
    }
    const scale = column / width;
    const bar = wide ? Math.max(0, frame.clientHeight - root.clientHeight) : 0;
    keepRatios(pictures);
    const high = Math.max(24, Math.ceil(heightOf(root, d.body)) + bar);
    scrolled(wide, high > highest);
    frame.style.height = `${Math.min(highest, high)}px`;
    frame.style.transform = scale < 1 ? `scale(${scale})` : "";
    box.style.height = `${Math.ceil(Math.min(highest, high) * scale)}px`;
  };
  const watch = new ResizeObserver(measure);
  watch.observe(root);
  watch.observe(box);
  measure();
  return () => watch.disconnect();
}

/** The extent of wide content from left to right: scrollWidth leaves out content beyond the left border. */
function reach(d: Document, width: number): number {
  let left = 0, right = width;
  for (const e of d.body.querySelectorAll("table,img,pre,[style*=width]")) {
    const box = e.getBoundingClientRect();
    left = Math.min(left, box.left);
    right = Math.max(right, box.right);
  }
  return Math.ceil(right - left);
}
