/** A kind of fault, with the function that injects it into a server. */
import type { ModelHome } from "./model-home.ts";
import type { Tally } from "./tally.ts";

export interface Injection {
  readonly tally: Tally;
  readonly home: ModelHome;
  /** Random numbers from 0 to below 1, the same for the same seed. */
  readonly random: () => number;
  /** Whether to inject the long form, with far more faults and with measurements. */
  readonly isLong: boolean;
}

export interface Fault {
  readonly name: string;
  /** What a server guarantees under the fault, as a sentence. */
  readonly title: string;
  /** Why the fault cannot be injected on this machine; undefined if it can. */
  readonly lacking?: string | undefined;
  /**
   * Injects the fault, and records each failure of the server in the tally. @throws Error if the injection itself fails
   */
  inject(injection: Injection): Promise<void>;
}

/** Injects a fault. An error of the injection becomes a problem in the tally. */
export async function injectFault(fault: Fault, injection: Injection): Promise<void> {
  try {
    await fault.inject(injection);
  } catch (error) {
    injection.tally.problem(`${error}\n${error instanceof Error ? error.stack : ""}`);
  }
}
