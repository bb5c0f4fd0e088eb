/** How much of the machine is ours: two loops at once, one a core, that do nothing but count. */
import { Child } from "./child.ts";

const CORES = 2;
const program = `
let counted = 0;
const spin = (ms) => { const end = performance.now() + ms; counted = 0; while (performance.now() < end) for (let i = 0; i < 1000; i++) counted++; };
spin(20);
spin(200);
console.log(counted);`;

/** Counts of the slower core; compare only those of one run. */
export class Canary {
  readonly #heard: number[] = [];
  #since = 0;

  async listen(): Promise<void> {
    const spins = Array.from({ length: CORES }, () => Child.run([process.execPath, "-e", program]));
    this.#heard.push(Math.min(...(await Promise.all(spins)).map(Number)));
  }

  /** What was heard since the last call, as shares of the best that was heard in this run. */
  shares(): { min: number; max: number } {
    const best = Math.max(...this.#heard);
    const heard = this.#heard.slice(this.#since).map((count) => count / best);
    this.#since = this.#heard.length;
    return { min: Math.min(...heard), max: Math.max(...heard) };
  }
}
