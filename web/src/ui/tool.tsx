// A button of a toolbar that stands for a command.

import type { Deed } from "./commands";
import { Icon } from "./icons";

/** A button that does what a command does, or with run what goes with the place of the button. */
export function Tool({ of, run = of.run, pressed }: { of: Deed; run?: (at: Element) => void; pressed?: boolean }) {
  return (
    <button class="tool" aria-label={of.text} title={of.hint} {...(pressed === undefined ? {} : { "aria-pressed": pressed })} onClick={(e) => run(e.currentTarget)}><Icon name={of.icon} /></button>
  );
}
