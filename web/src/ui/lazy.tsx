// Parts of the screen that are loaded when they are needed first.

import { useSignal } from "@preact/signals";
import type { ComponentChildren, ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { outdated } from "../state/session";

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let ready: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const there = useSignal(ready !== null);
    useEffect(() => {
      // A part that is not there any more is one of a client that the server had before.
      if (!ready) void load().then((c) => { ready = c; there.value = true; }, () => (outdated.value = true));
    }, []);
    const C = ready;
    return there.value && C ? <C {...props} /> : null;
  };
}

export function Suspense({ children }: { children: ComponentChildren }) {
  return <>{children}</>;
}
