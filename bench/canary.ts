/** Measures how much of two cores other programs leave free: two loops count at the same time, as fast as they can. */
import { Child } from "./child.ts";

const CORES = 2;
const program = `
let counted = 0;
const spin = (ms) => { const end = performance.now() + ms; counted = 0; while (performance.now() < end) for (let i = 0; i < 1000; i++) counted++; };
spin(20);
spin(200);
console.log(counted);`;

/** Records counts of the slower core. Only counts of one run of the benchmark can be compared. */
export class Canary {
  readonly #counts: number[] = [];
  #since = 0;

  async count(): Promise<void> {
    const spins = Array.from({ length: CORES }, () => Child.run([process.execPath, "-e", program]));
    this.#counts.push(Math.min(...(await Promise.all(spins)).map(Number)));
  }

  /** Lowest and highest count since the last call, divided by the highest count of this run. */
  shares(): { min: number; max: number } {
    const best = Math.max(...this.#counts);
    const shares = this.#counts.slice(this.#since).map((count) => count / best);
    this.#since = this.#counts.length;
    return { min: Math.min(...shares), max: Math.max(...shares) };
  }
}
