// Colours of calendars: any colour of CSS in, one hue out, which style sheets turn into colours of both themes.

import { hues, type Hue } from "./own";

let probe: CanvasRenderingContext2D | null | undefined;

/** The hue of a colour of CSS; of grey, or of what is no colour, that which is given. */
export function hueOf(colour: string | null | undefined, otherwise: number): number {
  if (!colour) return otherwise;
  probe ??= document.createElement("canvas").getContext("2d");
  if (!probe) return otherwise;
  probe.fillStyle = "#010203";
  probe.fillStyle = colour;
  const [, r, g, b] = /^#(..)(..)(..)$/u.exec(probe.fillStyle)?.map((x) => Number.parseInt(x, 16)) ?? [];
  if (r === undefined || (r === 1 && g === 2 && b === 3)) return otherwise;
  const max = Math.max(r, g!, b!), d = max - Math.min(r, g!, b!);
  if (d < 12) return otherwise;
  const sector = max === r ? ((g! - b!) / d + 6) % 6 : max === g ? (b! - r) / d + 2 : (r - g!) / d + 4;
  return Math.round(sector * 60) % 360;
}

/** The colour that stands for one of the client's hues, for other programs. */
export function colourOf(hue: Hue): string {
  const h = hues[hue], a = 0.55 * 0.4;
  const part = (n: number) => {
    const k = (n + h / 30) % 12;
    return Math.round(255 * (0.4 - a * Math.max(-1, Math.min(k - 3, 9 - k, 1)))).toString(16).padStart(2, "0");
  };
  return `#${part(0)}${part(8)}${part(4)}`;
}
