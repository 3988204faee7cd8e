// Swiping a row on a touch screen: to the right archives, to the left deletes.

/** The distance that a row has to be moved, and the farthest it goes, in pixels. */
const enough = 90;
const farthest = 140;

/** Handlers for a row. act is called with the direction. */
export function swipe(act: (to: "right" | "left") => void) {
  let x = 0, y = 0, by = 0, on = false;
  const set = (e: HTMLElement, to: number) => {
    by = to;
    e.style.setProperty("--swipe", `${to}px`);
    e.dataset["swipe"] = to > 0 ? "right" : to < 0 ? "left" : "";
  };
  return {
    onTouchStart: (e: TouchEvent) => {
      on = e.touches.length === 1;
      x = e.touches[0]!.clientX;
      y = e.touches[0]!.clientY;
    },
    onTouchMove: (e: TouchEvent) => {
      if (!on) return;
      const dx = e.touches[0]!.clientX - x;
      const dy = e.touches[0]!.clientY - y;
      if (by === 0 && Math.abs(dy) > Math.abs(dx)) return void (on = Math.abs(dy) < 10); // the list is scrolled
      if (by === 0 && Math.abs(dx) < 14) return;
      set(e.currentTarget as HTMLElement, Math.max(-farthest, Math.min(farthest, dx)));
    },
    onTouchEnd: (e: TouchEvent) => {
      const to = by;
      set(e.currentTarget as HTMLElement, 0);
      on = false;
      if (Math.abs(to) < enough) return;
      e.preventDefault(); // it is no tap
      act(to > 0 ? "right" : "left");
    },
    onTouchCancel: (e: TouchEvent) => set(e.currentTarget as HTMLElement, 0),
  };
}
