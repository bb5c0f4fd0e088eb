/** What came of the faults of one kind: counts, and for whatever is wrong a line that says where to look. */

export interface Counts {
  /** Faults that were injected. */
  injected: number;
  /** Faults after which the server served as before. */
  survived: number;
  /** Predictions whose end was looked at. */
  checked: number;
  /** Predictions that failed as they may: they ran at two deaths of their process, and say so. */
  givenUp: number;
  /** Predictions whose client was told an id that nobody knows any more. */
  lost: number;
  /** Predictions with an output that is not their own, or a failure that is not theirs. */
  wrong: number;
  /** Predictions, processes and requests that did not end in time. */
  stuck: number;
  /** Processes, files, sockets, descriptors and memory maps left over. */
  leaked: number;
}

type Fault = "lost" | "wrong" | "stuck" | "leaked";

/** Lines that are kept; more would say the same. */
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
  /** What was measured, for people. */
  readonly notes: string[] = [];
  /** What is wrong. */
  readonly problems: string[] = [];

  /** Counts what is wrong. */
  found(fault: Fault, problem: string): void {
    this.counts[fault] += 1;
    this.problem(`${fault}: ${problem}`);
  }

  /** What is wrong without being any of the counts. */
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
