// The address of the pages of calendar and contacts: a path, and what is open above it.
//
//   /calendar/week/2026-11-26   ?event=ID  ?edit=ID|new  ?open=settings|help
//   /contacts/all   /contacts/book/ID   /contacts/group/ID   ?card=ID  ?edit=ID|new  ?search=TEXT

import { signal } from "@preact/signals";

interface Route {
  path: string[];
  query: Record<string, string>;
}

/** A step of the browser's history; before is the address that the person came from, "" for the first. */
interface Step {
  before: string;
}

function parseRoute(url: { pathname: string; search: string }): Route {
  const path = url.pathname.split("/").filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part; // a "%" that stands for itself
    }
  });
  return { path, query: Object.fromEntries(new URLSearchParams(url.search)) };
}

function formatRoute({ path, query }: Route): string {
  const fields = Object.entries(query).filter(([, v]) => v !== "");
  return `/${path.map(encodeURIComponent).join("/")}${fields.length > 0 ? `?${new URLSearchParams(fields)}` : ""}`;
}

export const route = signal<Route>(parseRoute(location));

/** The steps that wait for one back, which the browser takes in a moment; null while none is under way. */
let waiting: (() => void)[] | null = null;

addEventListener("popstate", () => {
  const steps = waiting ?? [];
  waiting = null;
  steps.forEach(take);
  if (!waiting) route.value = parseRoute(location);
});

/** Takes a step of the history. What is asked for while one back is under way comes after it, or that one would undo it. */
function take(step: () => void): void {
  if (waiting) waiting.push(step);
  else step();
}

/** Goes to an address: a step of the history, or with replace in the place of the one that is shown. */
export function go(to: Route, replace = false): void {
  const address = formatRoute(to);
  const before = formatRoute(route.peek());
  if (address === before) return;
  route.value = to;
  take(() => {
    if (replace) history.replaceState(history.state, "", address);
    else history.pushState({ before } satisfies Step, "", address);
  });
}

/** Sets fields of the query, or takes them away with "". */
export function goQuery(change: Record<string, string>, replace = false): void {
  const { path, query } = route.peek();
  go({ path, query: { ...query, ...change } }, replace);
}

/** Closes what the fields of the query have opened: as Back does, where that leads to the same address. It is closed at once. */
export function closeQuery(...fields: string[]): void {
  const { path, query } = route.peek();
  const to = { path, query: Object.fromEntries(Object.entries(query).filter(([k]) => !fields.includes(k))) };
  const address = formatRoute(to);
  if (address === formatRoute(route.peek())) return; // a second step back would leave the page
  route.value = to;
  take(() => {
    if ((history.state as Step | null)?.before === address) {
      waiting = [];
      history.back();
    } else history.replaceState(history.state, "", address);
  });
}
