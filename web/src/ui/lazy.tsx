// Parts of the screen that are loaded when they are needed first.

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { outdated } from "../state/session";

/** lost is shown in the place of a part that could not be loaded; without it, the banner alone tells. */
export function lazy<P extends object>(load: () => Promise<ComponentType<P>>, lost?: ComponentType): ComponentType<P> {
  // One for all places that show the part: each is drawn when it comes, whichever asked for it.
  const part = signal<ComponentType<P> | null>(null);
  const failed = signal(false);
  return function Lazy(props: P) {
    useEffect(() => {
      // A part that is not there any more is one of a client that the server had before.
      if (!part.peek()) void load().then((c) => (part.value = c), () => (outdated.value = failed.value = true));
    }, []);
    const C = part.value;
    const Lost = failed.value ? lost : undefined;
    return C ? <C {...props} /> : Lost ? <Lost /> : null;
  };
}
