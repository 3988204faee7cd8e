// The state of the screen: the open message, the selection, sheets and notices.

import { signal } from "@preact/signals";
import type { Id } from "../jmap/types";

/** The message that is read, and the position of the cursor in the list. */
export const reading = signal<Id | null>(null);
export const cursor = signal(0);
export const selected = signal<Set<Id>>(new Set());
export const sideOpen = signal(false);
export const narrow = signal(false);

const narrowScreen = matchMedia("(max-width: 760px)");
narrow.value = narrowScreen.matches;
narrowScreen.addEventListener("change", () => (narrow.value = narrowScreen.matches));

/** The scroll position of the list, in pixels. */
export const scrolled = { top: 0 };
/** A position in a list: by how many pixels it is scrolled, the cursor, and the messages near those in sight, which begin at from. */
export interface Position {
  top: number;
  cursor: number;
  from: number;
  ids: (Id | undefined)[];
}
/** The position for the list when it is there. */
export const goal = signal<Position | null>(null);
/** page: the message that is opened next takes the place of the one that is read, as a page that is turned does; it is no step to go back. */
export const turning = { page: false };

export interface Toast {
  key: number;
  text: string;
  action?: { text: string; run: () => void };
}

export const toasts = signal<Toast[]>([]);
let serial = 0;

/** Shows a notice for a while; its action undoes or repeats the work. */
export function say(text: string, action?: Toast["action"], seconds = 6): () => void {
  const key = ++serial;
  toasts.value = [...toasts.value.slice(-2), { key, text, ...(action ? { action } : {}) }];
  const end = () => (toasts.value = toasts.value.filter((t) => t.key !== key));
  setTimeout(end, seconds * 1000);
  return end;
}

/** Takes an answer, and returns the reason of a refusal. A promise keeps the question open until it is fulfilled. */
export type Answered = (answer: string | true) => unknown;

export type Sheet =
  | { kind: "settings" }
  | { kind: "help" }
  | { kind: "source"; id: Id }
  | { kind: "ask"; title: string; text?: string; yes: string; danger?: boolean; input?: string; type?: "datetime-local"; hint?: (text: string) => string; done: Answered }
  | { kind: "redirect"; id: Id }
  | { kind: "rule"; id: Id }
  | { kind: "scheduled" }
  | { kind: "deleted" }
  | { kind: "preview"; of: Id; at: number }
  | { kind: "palette"; mode: "all" | "move" | "go" | "label" };

export const sheet = signal<Sheet | null>(null);

/** The keys that were pressed for the palette, or a writer that is opened, before it was there; "\n" stands for Enter, "\t" for Tab. */
export const typedAhead = { keys: "", writer: false };
sheet.subscribe(() => (typedAhead.keys = ""));

export interface MenuItem {
  text: string;
  icon?: string;
  /** The key that does the same. */
  key?: string;
  /** The hue of its icon. */
  hue?: number;
  run: () => void;
}

export const menu = signal<{ x: number; y: number; items: MenuItem[] } | null>(null);

/** All messages of the conversation that is read are to be folded, or unfolded; null: nobody asked. */
export const folded = signal<{ all: boolean } | null>(null);

/** Opens a menu below the element that asked for it, or at a point. */
export function openMenu(at: Element | { left: number; bottom: number }, items: MenuItem[]): void {
  const box = at instanceof Element ? at.getBoundingClientRect() : at;
  menu.value = { x: Math.min(box.left, innerWidth - 240), y: Math.min(box.bottom + 4, innerHeight - Math.min(items.length * 37 + 12, innerHeight * 0.6)), items };
}
