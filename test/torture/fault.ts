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
  /** The promise that holds under the fault, as a sentence. */
  readonly title: string;
  /** Why it cannot be injected on this machine. */
  readonly lacking?: string | undefined;
  /** Adds each broken promise to the tally. @throws Error when the injection itself fails */
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
