/**
 * Where the server stands in its life; routes answer by it. A server that is `leaving` still takes work, from routers that have not learnt of it
 * yet; one that is `draining` finishes what it has.
 */
export type Phase = "starting" | "ready" | "leaving" | "draining";

/** What a server lacks that takes predictions: it cannot end them now. */
export type Hindrance = "engine" | "queue" | "pictures" | "store";

/** Why a server is not ready. */
export type Unready = Exclude<Phase, "ready"> | Hindrance;

export class Lifecycle {
  phase: Phase = "starting";
  hindrance: () => Hindrance | undefined = () => undefined;

  /** Undefined where the server is ready. */
  get unready(): Unready | undefined {
    return this.phase === "ready" ? this.hindrance() : this.phase;
  }
}
