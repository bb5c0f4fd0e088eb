/** Settings of a model: an author declares defaults, and an operator overrides them. */

/** Settings that an author may declare and an operator may override. */
export interface ModelSettings {
  /** Largest batch, in items. Default: as many as a single `.pt2` file allows, up to 32; 1 for other weights. */
  readonly batchSize?: number;
  /** Maximum milliseconds that a ready item waits for a fuller batch. Default 0. */
  readonly maxQueueDelayMs?: number;
  /**
   * Latency target in milliseconds, from the moment an item is ready to the end of its batch. The server then limits
   * batch sizes (up to `batchSize`) to meet the target. Default: no target.
   */
  readonly latencyTargetMs?: number;
  /**
   * Device: `auto` (a GPU when there is one), `cpu`, `cuda`, `cuda:N`, several GPUs as in `cuda:0,cuda:1`, or
   * `cuda:all`. Default `auto`.
   */
  readonly device?: string;
  /**
   * Copies of the model that run in parallel on each device. Copies share the weights; a module that changes its
   * weights gets a set for each copy. Default 1.
   */
  readonly instances?: number;
  /** CPU threads per instance. Default: chosen at warm-up. */
  readonly threads?: number;
  /** Limit on inputs per prediction. Default: the server's limit. */
  readonly maxInputs?: number;
}

/** The declared settings, without the rest of a declaration. */
export function settingsOf(declared: ModelSettings): ModelSettings {
  const { batchSize, maxQueueDelayMs, latencyTargetMs, device, instances, threads, maxInputs } = declared;
  return Object.fromEntries(
    Object.entries({ batchSize, maxQueueDelayMs, latencyTargetMs, device, instances, threads, maxInputs }).filter(
      ([, v]) => v !== undefined,
    ),
  );
}
