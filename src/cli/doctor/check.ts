/** A line of `sconce doctor`: what was found, and a fix for a problem. */

export interface Check {
  readonly name: string;
  /** The result. With `warning`, serving still works. */
  readonly state: "ok" | "warning" | "fault";
  readonly found: string;
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
