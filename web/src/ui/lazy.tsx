// Parts of the screen that are loaded when they are needed first.

import { useSignal } from "@preact/signals";
import type { ComponentChildren, ComponentType } from "preact";
import { useEffect } from "preact/hooks";

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let ready: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const there = useSignal(ready !== null);
    useEffect(() => {
      if (!ready) void load().then((c) => { ready = c; there.value = true; });
    }, []);
    const C = ready;
    return there.value && C ? <C {...props} /> : null;
  };
}

export function Suspense({ children }: { children: ComponentChildren }) {
  return <>{children}</>;
}
