// What is open on the screen: the message, what is selected, writers, sheets, notes to the person.

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

export interface Toast {
  key: number;
  text: string;
  action?: { text: string; run: () => void };
}

export const toasts = signal<Toast[]>([]);
let serial = 0;

/** Says something for a while; an action undoes or repeats what was done. */
export function say(text: string, action?: Toast["action"], seconds = 6): () => void {
  const key = ++serial;
  toasts.value = [...toasts.value.slice(-2), { key, text, ...(action ? { action } : {}) }];
  const end = () => (toasts.value = toasts.value.filter((t) => t.key !== key));
  setTimeout(end, seconds * 1000);
  return end;
}

export type Sheet =
  | { kind: "settings" }
  | { kind: "help" }
  | { kind: "source"; id: Id }
  | { kind: "ask"; title: string; text?: string; yes: string; danger?: boolean; input?: string; done: (answer: string | true) => void }
  | { kind: "redirect"; id: Id };

export const sheet = signal<Sheet | null>(null);

export interface MenuItem {
  text: string;
  icon?: string;
  run: () => void;
}

export const menu = signal<{ x: number; y: number; items: MenuItem[] } | null>(null);

/** Opens a menu below the element that asked for it. */
export function openMenu(at: Element, items: MenuItem[]): void {
  const box = at.getBoundingClientRect();
  menu.value = { x: Math.min(box.left, innerWidth - 240), y: Math.min(box.bottom + 4, innerHeight - Math.min(items.length * 37 + 12, innerHeight * 0.6)), items };
}
