// The settings of this device.

import { effect, signal } from "@preact/signals";
import { languages, preferred, speak, type Language } from "../text";
import { byThread } from "./place";
import { localStorageGet, localStorageSet } from "./session";

export interface Preferences {
  language: Language;
  theme: "auto" | "light" | "dark";
  density: "comfortable" | "compact";
  threads: boolean;
  undoSeconds: number;
  notify: boolean;
  /** The widths of the folders and of the list, in pixels; 0 for the usual one. Style sheets bound them. */
  side: number;
  list: number;
}

const key = "doublet:preferences";

function read(): Preferences {
  const out: Preferences = { language: preferred(), theme: "auto", density: "comfortable", threads: true, undoSeconds: 8, notify: false, side: 0, list: 0 };
  try {
    const kept = JSON.parse(localStorageGet(key) ?? "{}") as Partial<Preferences>;
    for (const [k, v] of Object.entries(kept)) if (k in out && typeof v === typeof out[k as keyof Preferences]) Object.assign(out, { [k]: v });
  } catch {
    // what cannot be read is as if it were not there
  }
  if (!(out.language in languages)) out.language = "en";
  return out;
}

export const preferences = signal<Preferences>(read());

export function prefer(change: Partial<Preferences>): void {
  preferences.value = { ...preferences.value, ...change };
  localStorageSet(key, JSON.stringify(preferences.value));
}

/** The cookie of the server's own pages (serve/speech): this language, and the time zone chosen there, else this browser's. */
function tellPages(l: Language): void {
  const zone = /(?:^|; )doublet-speech=[a-z]+\|([A-Za-z0-9_+/-]+)/u.exec(document.cookie)?.[1] ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
  document.cookie = `doublet-speech=${l}|${zone}; Path=/; SameSite=Lax; Max-Age=31536000${location.protocol === "https:" ? "; Secure" : ""}`;
}

export const panes = ["side", "list"] as const;
export type Pane = (typeof panes)[number];

/** Shows a pane as wide as that, in pixels; 0 for the usual width. */
export function setWidth(pane: Pane, width: number): void {
  const { style } = document.documentElement;
  if (width > 0) style.setProperty(`--${pane}`, `${Math.round(width)}px`);
  else style.removeProperty(`--${pane}`);
}

const dark = matchMedia("(prefers-color-scheme: dark)");

/** The page is shown dark. */
export const isDark = signal(false);

/** Keeps the page as the preferences say. */
export function applyPreferences(): void {
  const show = () => {
    const p = preferences.value;
    isDark.value = p.theme === "dark" || (p.theme === "auto" && dark.matches);
    document.documentElement.dataset["theme"] = isDark.value ? "dark" : "light";
    document.documentElement.dataset["density"] = p.density;
    for (const pane of panes) setWidth(pane, p[pane]);
    byThread.value = p.threads;
    void speak(p.language);
    tellPages(p.language);
  };
  effect(show);
  dark.addEventListener("change", show);
}
