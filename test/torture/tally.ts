/** The results of one kind of fault: counts, and a line for each problem. */

export interface Counts {
  /** Injected faults. */
  injected: number;
  /** Faults after which the server served as before. */
  survived: number;
  /** Predictions with a verified end. */
  checked: number;
  /** Predictions that failed as they may: they ran at two deaths of their process, and say so. */
  givenUp: number;
  /** Predictions with an acknowledged id that the server does not know. */
  lost: number;
  /** Predictions with an output that is not their own, or a failure that is not theirs. */
  wrong: number;
  /** Predictions, processes and requests that did not end in time. */
  stuck: number;
  /** Processes, files, sockets, descriptors and memory maps left over. */
  leaked: number;
}

type Fault = "lost" | "wrong" | "stuck" | "leaked";

/** Limit of lines; later problems repeat earlier ones. */
const MAX_LINES = 20;

export class Tally {
  readonly counts: Counts = {
    injected: 0,
    survived: 0,
    checked: 0,
    givenUp: 0,
    lost: 0,
    wrong: 0,
    stuck: 0,
    leaked: 0,
  };
  /** Measurements, for readers. */
  readonly notes: string[] = [];
  /** What is wrong. */
  readonly problems: string[] = [];

  /** Counts a problem. */
  found(fault: Fault, problem: string): void {
    this.counts[fault] += 1;
    this.problem(`${fault}: ${problem}`);
  }

  /** Adds a problem outside the counts. */
  problem(problem: string): void {
    if (this.problems.length < MAX_LINES) this.problems.push(problem);
  }

  note(note: string): void {
    this.notes.push(note);
  }

  /** Injects one fault: `survive` resolves when the server is as before. */
  async inject(survive: () => Promise<void>): Promise<void> {
    this.counts.injected += 1;
    await survive();
    this.counts.survived += 1;
  }

  get isClean(): boolean {
    return this.problems.length === 0 && this.counts.survived === this.counts.injected;
  }
}
