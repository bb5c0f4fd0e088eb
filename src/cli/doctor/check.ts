/** One line of `sconce doctor`: what was found, and what to do where it is not as it should be. */

export interface Check {
  readonly name: string;
  /** A warning is no reason why serving would not work. */
  readonly state: "ok" | "warning" | "fault";
  readonly found: string;
  /** What mends it; undefined where nothing is to be done. */
  readonly fix?: string;
}

export function ok(name: string, found: string): Check {
  return { name, state: "ok", found };
}

export function warning(name: string, found: string, fix: string): Check {
  return { name, state: "warning", found, fix };
}

export function fault(name: string, found: string, fix: string): Check {
  return { name, state: "fault", found, fix };
}
