/**
 * Resamples with windowed sinc filters. The results match torchaudio's `transforms.Resample` with its default options
 * (`sinc_interp_hann`).
 */
import { Turn } from "../../base/turn.ts";

const ZERO_CROSSINGS = 6;
const ROLLOFF = 0.99;
/** Longest time in milliseconds during which the event loop can run nothing else. */
const MAX_HOLD_MS = 5;
/** Products of samples and filter weights between two looks at the clock: a few milliseconds of work. */
const TAPS_AT_ONCE = 65_536;

export interface Rates {
  readonly from: number;
  readonly to: number;
}

/** Number of samples of one channel after resampling. */
export function resampledLength(length: number, { from, to }: Rates): number {
  return Math.ceil((length * to) / from);
}

interface Filter {
  /** First input sample of the filter, relative to the input sample at phase 0. */
  readonly offset: number;
  readonly weights: Float32Array;
}

export class Resampler {
  readonly #from: number;
  readonly #to: number;
  /** Filters by phase, each computed when it is first needed. */
  readonly #made: (Filter | undefined)[] = [];

  constructor({ from, to }: Rates) {
    const common = greatestDivisor(from, to);
    this.#from = from / common;
    this.#to = to / common;
  }

  /** Memory in bytes of the filters for this number of resampled samples. */
  filterBytes(length: number): number {
    return 4 * this.#taps * Math.min(this.#to, length);
  }

  /**
   * Resamples one channel.
   * @param target gets `resampledLength` samples
   * @returns milliseconds during which the event loop ran other work
   */
  async run(samples: Float32Array, target: Float32Array): Promise<number> {
    const turn = new Turn(MAX_HOLD_MS);
    const count = Math.ceil(TAPS_AT_ONCE / this.#taps);
    for (let first = 0; first < target.length; first += count) {
      this.#apply(samples, target, { first, end: Math.min(first + count, target.length) });
      if (turn.isOver) await turn.next();
    }
    return turn.waitedMs;
  }

  /** Maximum weights of one filter. */
  get #taps(): number {
    return Math.floor(2 * this.#reach) + 1;
  }

  get #cutoff(): number {
    return Math.min(this.#from, this.#to) * ROLLOFF;
  }

  /** Input samples on each side of a filter's centre. */
  get #reach(): number {
    return (ZERO_CROSSINGS * this.#from) / this.#cutoff;
  }

  #apply(samples: Float32Array, target: Float32Array, { first, end }: { first: number; end: number }): void {
    for (let i = first; i < end; i++) {
      const phase = i % this.#to;
      const filter = this.#made[phase] ?? this.#make(phase);
      const { offset, weights } = filter;
      const from = ((i - phase) / this.#to) * this.#from + offset;
      const last = Math.min(weights.length, samples.length - from);
      let sum = 0;
      for (let j = Math.max(0, -from); j < last; j++) sum += (weights[j] ?? 0) * (samples[from + j] ?? 0);
      target[i] = sum;
    }
  }

  #make(phase: number): Filter {
    const [from, to] = [this.#from, this.#to];
    const [cutoff, reach] = [this.#cutoff, this.#reach];
    const centre = (phase / to) * from;
    const offset = Math.ceil(centre - reach);
    const weights = Float32Array.from({ length: Math.floor(centre + reach) - offset + 1 }, (_, j) => {
      const t = ((offset + j - centre) / from) * cutoff;
      const window = Math.cos((t * Math.PI) / ZERO_CROSSINGS / 2) ** 2;
      return (t === 0 ? 1 : Math.sin(t * Math.PI) / (t * Math.PI)) * window * (cutoff / from);
    });
    const made = { offset, weights };
    this.#made[phase] = made;
    return made;
  }
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}
