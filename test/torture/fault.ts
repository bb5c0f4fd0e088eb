/** A kind of fault, and how it is injected into a server. */
import type { ModelHome } from "./model-home.ts";
import type { Tally } from "./tally.ts";

export interface Injection {
  readonly tally: Tally;
  readonly home: ModelHome;
  /** From 0 to 1. */
  readonly random: () => number;
  /** Far more often, and with measurements. */
  readonly isLong: boolean;
}

export interface Fault {
  readonly name: string;
  /** What holds in spite of it, as a sentence. */
  readonly title: string;
  /** Why it cannot be injected on this machine. */
  readonly lacking?: string | undefined;
  /** Whatever is wrong goes into the tally; @throws Error when the injection itself cannot go on */
  inject(injection: Injection): Promise<void>;
}

/** Injects a fault; an error on the way is a problem of the tally. */
export async function injectFault(fault: Fault, injection: Injection): Promise<void> {
  try {
    await fault.inject(injection);
  } catch (error) {
    injection.tally.problem(`${error}\n${error instanceof Error ? error.stack : ""}`);
  }
}
