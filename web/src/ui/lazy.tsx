// Parts of the screen that are loaded when they are needed first.

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { outdated } from "../state/session";

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  // One for all places that show the part: each is drawn when it comes, whichever asked for it.
  const part = signal<ComponentType<P> | null>(null);
  return function Lazy(props: P) {
    useEffect(() => {
      // A part that is not there any more is one of a client that the server had before.
      if (!part.peek()) void load().then((c) => (part.value = c), () => (outdated.value = true));
    }, []);
    const C = part.value;
    return C && <C {...props} />;
  };
}
