// Styles of foreign HTML: declarations are kept if they are listed.

/** Properties that a message may set: text, colours, sizes and tables. Nothing that loads, and nothing that leaves its place. */
const properties = new RegExp(`^(?:${[
  "color|background-color|background-(?:position(?:-[xy])?|size|repeat|clip|origin)|opacity|visibility|display|float|clear|direction|unicode-bidi|vertical-align",
  "white-space(?:-collapse)?|table-layout|caption-side|empty-cells|box-sizing|cursor|border-collapse|border-spacing|(?:-webkit-)?border-(?:horizontal|vertical)-spacing",
  "(?:min-|max-)?(?:width|height|inline-size|block-size)|aspect-ratio|object-(?:fit|position)|overflow(?:-[xy])?|box-shadow|text-shadow|outline-(?:width|style|color|offset)",
  "line-height|letter-spacing|word-(?:spacing|break|wrap)|overflow-wrap|hyphens|tab-size|list-style-(?:type|position)",
  "flex-(?:direction|wrap|grow|shrink|basis)|order|(?:align|justify)-(?:content|items|self)|(?:row-|column-)?gap|column-(?:count|width)|column-rule-(?:width|style|color)|grid-(?:template-(?:columns|rows)|auto-(?:flow|columns|rows)|(?:column|row)-(?:start|end))",
  "font-(?:family|size|style|weight|stretch|variant(?:-(?:caps|numeric|ligatures|position))?)|text-(?:align(?:-last)?|decoration(?:-line|-style|-color|-thickness)?|indent|transform|overflow|wrap(?:-mode|-style)?|underline-offset)",
  "(?:margin|padding)-(?:top|right|bottom|left|inline-start|inline-end|block-start|block-end)",
  "border-(?:top|right|bottom|left|(?:inline|block)-(?:start|end))-(?:width|style|color)|border-(?:top|bottom)-(?:left|right)-radius|border-(?:start|end)-(?:start|end)-radius",
].join("|")})$`, "u");

/** Functions of values that compute, and load nothing. */
const computes = /\b(?:rgba?|hsla?|calc|min|max|clamp|repeat|minmax|fit-content)\(/giu;

/** Units of the frame's height, which follows the height of its content: a message of 101vh would grow without end. */
const byHeight = /\d(?:[sld]?v(?:h|min|max|b))\b/iu;

const gradient = /^(?:repeating-)?(?:linear|radial)-gradient\(/iu;
const loads = /(?:url|image-set|src)\(\s*["']?\s*(?:https?:)?\/\//iu;
const picture = /^url\("https?:\/\/[^"\\]*"\)$/iu;

/** Colours of a message, as far as they decide how it is shown on a dark page. */
export interface Tone {
  /** It has colours or backgrounds of its own. */
  designed: boolean;
  /** It has rules for dark pages, with text and backgrounds. */
  darkText: boolean;
  darkGround: boolean;
  /** It says that it can be dark. */
  saysDark: boolean;
}

export const noTone = (): Tone => ({ designed: false, darkText: false, darkGround: false, saysDark: false });

const rgb = (value: string) => /^rgba?\((\d+), (\d+), (\d+)(?:, ([\d.]+))?\)$/u.exec(value)?.slice(1).map((x) => Number(x ?? "1"));

/** Text that is as readable in the page's own colour: unset, black, or grey. */
export function isNeutralText(value: string): boolean {
  const c = rgb(value);
  if (!c) return /^(?:|inherit|initial|unset|revert|currentcolor|windowtext|canvastext|black|transparent)$/iu.test(value);
  const [r, g, b] = c as [number, number, number];
  return Math.max(r, g, b) <= 160 && Math.max(r, g, b) - Math.min(r, g, b) <= 16;
}

/** A background that is none: unset, transparent, or white. */
export function isNeutralGround(value: string): boolean {
  const c = rgb(value);
  if (!c) return /^(?:|inherit|initial|unset|revert|none|transparent|white|window|canvas)$/iu.test(value);
  return c[3] === 0 || Math.min(c[0]!, c[1]!, c[2]!) >= 250;
}

export interface Kept {
  text: string;
  /** Something of it would have been loaded from elsewhere. */
  remote: boolean;
}

/** Keeps of declarations the listed ones. load lets backgrounds be pictures from elsewhere; forLink means that colours are a link's. */
export function keepDeclarations(from: CSSStyleDeclaration, load: boolean, tone: Tone, forLink = false): Kept {
  const kept: string[] = [];
  const add = (name: string, value: string) => kept.push(`${name}: ${value}${from.getPropertyPriority(name) && " !important"}`);
  for (const name of Array.from(from)) {
    const value = from.getPropertyValue(name);
    if (name === "background-image") {
      if (value === "none" || value === "initial") continue;
      tone.designed = true;
      if (load && picture.test(value) || gradient.test(value) && !/[\\(<]/u.test(value.replace(gradient, "").replace(computes, ""))) add(name, value);
    } else if (value !== "" && properties.test(name) && !byHeight.test(value) && !/[\\(<]/u.test(value.replace(computes, ""))) {
      add(name, value);
      if (name === "background-color" && !isNeutralGround(value) || name === "color" && !forLink && !isNeutralText(value)) tone.designed = true;
    }
  }
  return { text: kept.join("; "), remote: loads.test(from.cssText) };
}
